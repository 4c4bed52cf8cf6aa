"""The command that trains again says all that a command line can say."""

from pathlib import Path

import noisebound as nb
from noisebound.runs import train_run
from noisebound.runs.corrections import fit_again
from noisebound.training import TrainingConfig
from training_data import noisy_clouds


def test_it_names_what_differs_from_the_defaults(tmp_path):
    splits = noisy_clouds()
    names = splits.train.class_names
    size = len(names)
    transition = tuple(
        tuple(0.7 if row == column else 0.3 / (size - 1) for column in range(size))
        for row in range(size)
    )
    config = TrainingConfig(
        loss="fce",
        transition=transition,
        model="linear",
        epochs=1,
        drop_epoch=None,
        class_weight={names[0]: 2.0, names[1]: 0.5},
    )
    run = train_run(splits, config, tmp_path / "run", show=False)
    words = fit_again(run.folder, run.config, Path("decisions.jsonl"), Path("again"))
    assert words == [
        *("noisebound", "fit", "DATA", "--loss", "fce", "--model", "linear", "--epochs", "1"),
        *("--class-weight", f"{names[0]}=2.0", f"{names[1]}=0.5", "--transition", "MATRIX.csv"),
        *("--corrections", "decisions.jsonl", "--out", "again"),
    ]


def test_options_are_spelled_as_the_command_takes_them(tmp_path):
    table = tmp_path / "table.csv"
    rows = [f"{number**2 % 37},{number % 2},{number // 3}" for number in range(90)]
    table.write_text("\n".join(["size,label,patient", *rows]))
    run = nb.fit(table, out=tmp_path / "run", target="label", groups="patient", learner="linear")
    words = fit_again(run.folder, run.config, tmp_path / "decisions.jsonl", tmp_path / "again")
    assert words[words.index("--group") + 1] == "patient"
