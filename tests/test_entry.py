"""`nb.fit` does what the command does, and `nb.load_run` loads the run again."""

import gc
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import nn

import noisebound as nb
from noisebound.data import dataset_from_arrays
from noisebound.errors import DataError, FolderTakenError
from noisebound.runs.noise_record import noise_record
from training_data import noisy_clouds

QUICK = {"noise_rate": 0.2, "epochs": 2, "batch_size": 50, "show": False}
RNG = np.random.default_rng(0)
ROWS = {
    "x": RNG.normal(size=200),
    "city": RNG.choice(["Rome", "Oslo"], 200).tolist(),
    "kind": RNG.integers(2, size=200),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Digits, trained once for all tests that only read."""
    folder = tmp_path_factory.mktemp("entry") / "run"
    return nb.fit("digits", out=folder, model="small_mlp", **QUICK)


def test_all_files_of_the_command_are_written(run):
    files = {path.name for path in run.path.iterdir()}
    assert files >= {
        "config.json", "metrics.jsonl", "result.json", "model.safetensors", "model.json",
        "data.json", "command.txt", "report.html",
    }  # fmt: skip
    command = (run.path / "command.txt").read_text()
    assert command.startswith("noisebound.fit('digits', out=")
    assert "noise_rate=0.2, epochs=2" in command
    assert json.loads((run.path / "data.json").read_text())["data"] == "digits"
    assert "noisebound.fit" in (run.path / "report.html").read_text()


def test_load_run(run):
    again = nb.load_run(str(run.path))
    assert again.config == run.config
    assert again.history.equals(run.history)
    assert noise_record(again.noise) == noise_record(run.noise)
    assert again.suspects().equals(run.suspects())
    np.testing.assert_array_equal(again.predict_proba("digits"), run.predict_proba("digits"))


def test_attributes_of_a_run(run):
    assert isinstance(run, nb.Run)
    assert isinstance(run.model, nn.Module)
    assert run.noise.rate == 0.2
    assert run.config.epochs == 2
    assert isinstance(run.history, pl.DataFrame)
    assert run.history["epoch"].to_list() == [1, 2]
    assert run.history["train_loss"].dtype == pl.Float64
    assert run.history["averaged_test_top1"].is_between(0, 1).all()
    labels = run.predict("digits")
    assert labels.shape == (540,)
    assert labels.dtype.kind == "i"  # the names of the classes are numbers
    suspects = run.suspects()
    assert len(suspects) == 1257
    assert suspects["probability_wrong"].is_sorted(descending=True)


@pytest.mark.parametrize("kind", ["polars", "pandas", "csv"])
def test_tables(tmp_path, kind):
    frame = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "csv": pl.DataFrame}[kind](ROWS)
    data = frame
    if kind == "csv":
        data = tmp_path / "table.csv"
        frame.write_csv(data)
    run = nb.fit(data, out=tmp_path / "run", target="kind", **QUICK)
    assert set(run.predict(frame)) <= {0, 1}
    assert run.predict_proba(frame).shape == (200, 2)
    assert len(run.suspects()) == 200
    again = nb.load_run(tmp_path / "run")
    if kind == "csv":
        assert len(again.suspects()) == 200
    else:
        with pytest.raises(nb.DataError, match="was in memory and is not kept: pass the same"):
            again.suspects()
        assert again.suspects(frame).equals(run.suspects())


def test_arrays_and_data_sets(tmp_path):
    X, y = RNG.normal(size=(120, 3)).astype(np.float32), np.where(RNG.random(120) < 0.5, "a", "b")
    by_arrays = nb.fit((X, y), out=tmp_path / "arrays", **QUICK)
    by_dataset = nb.fit(dataset_from_arrays(X, y), out=tmp_path / "dataset", **QUICK)
    np.testing.assert_array_equal(by_arrays.predict_proba(X), by_dataset.predict_proba(X))
    assert set(by_arrays.predict(X)) <= {"a", "b"}
    splits = noisy_clouds()
    assert nb.fit(splits, out=tmp_path / "splits", **QUICK).result.final.test_top1 is not None


def test_a_table_is_standardized_once_by_its_training_part(tmp_path):
    """Not by the rows that validation keeps, and one-hot columns stay zeros and ones."""
    rows = ROWS | {"x": np.where(np.arange(200) < 100, 0.0, 1000.0) + ROWS["x"]}
    run = nb.fit(pl.DataFrame(rows), out=tmp_path / "run", target="kind", **QUICK)
    card = run.saved_model.card
    assert card.mean == card.std == ()  # no second scaling
    (number,) = (column for column in card.encoder.columns if column.name == "x")
    from noisebound.training.data import split_validation

    splits = run.training_data()
    data, encoded = split_validation(splits, run.config)
    kept = rows["x"][data.positions.numpy()]
    assert len(kept) == 180
    assert number.mean == pytest.approx(kept.mean())
    assert number.std == pytest.approx(kept.std())
    trained_on = data.train.dense_inputs
    assert trained_on[:, 0].mean().item() == pytest.approx(0, abs=1e-5)
    assert trained_on[:, 0].std(correction=0).item() == pytest.approx(1, abs=1e-4)
    assert set(trained_on[:, 1:].unique().tolist()) == {0.0, 1.0}
    assert encoded.encoder == card.encoder


def test_photos_do_not_get_an_mlp(tmp_path):
    images = RNG.integers(0, 256, size=(40, 8, 8), dtype=np.uint8)
    run = nb.fit((images, RNG.integers(2, size=40)), out=tmp_path / "run", **QUICK)
    assert run.config.model == "auto"
    assert run.saved_model.card.model == "small_cnn"
    assert any(isinstance(layer, nn.Conv2d) for layer in run.model.modules())


def test_a_module_of_the_users_own(tmp_path):
    network = nn.Linear(6, 4)
    run = nb.fit(noisy_clouds(), out=tmp_path / "run", model=network, **QUICK)
    assert run.predict_proba(torch.zeros(2, 6)).shape == (2, 4)
    again = nb.load_run(tmp_path / "run", model=nn.Linear(6, 4))
    np.testing.assert_array_equal(
        again.predict_proba(torch.ones(2, 6)), run.predict_proba(torch.ones(2, 6))
    )


def test_notes_come_before_training(tmp_path, capsys):
    rows = ROWS | {"constant": ["same"] * 200}
    settings = QUICK | {"show": True}
    order = []

    class Watched(nn.Linear):
        def forward(self, x):
            order.append(capsys.readouterr().err)
            return super().forward(x)

    nb.fit(pl.DataFrame(rows), out=tmp_path / "run", target="kind", model=Watched(3, 2), **settings)
    assert "note: column 'constant' never varies" in order[0]


@pytest.mark.parametrize(
    ("data", "options", "complaint"),
    [
        ("digits", {"epochs": 0}, "`epochs`"),
        ("digits", {"loss": "hinge"}, "unknown loss 'hinge'"),
        ("nowhere", {}, "neither a file or folder nor a known data set"),
        (7, {}, r"a pair \(inputs, labels\); got int"),
        (pl.DataFrame(ROWS), {}, "name the column of labels: `target`"),
    ],
)
def test_invalid_arguments(tmp_path, data, options, complaint):
    with pytest.raises(nb.NoiseboundError, match=complaint):
        nb.fit(data, out=tmp_path / "run", **(QUICK | options))
    assert not (tmp_path / "run").exists()


def test_a_cell_of_a_notebook_runs_twice(tmp_path):
    """`overwrite` replaces the run and nothing else, and never what people decided."""
    out, options = tmp_path / "run", {"target": "kind", "model": "linear", **QUICK}
    rows = pl.DataFrame(ROWS)
    nb.fit(rows, out=out, **options)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(FolderTakenError, match="replace it with `overwrite`"):
        nb.fit(rows, out=out, **options)
    again = nb.fit(rows, out=out, overwrite=True, **options | {"epochs": 3})
    assert len(again.history) == 3
    assert (out / "notes.txt").read_text() == "mine"
    with pytest.raises(ValueError, match="`resume` continues it"):
        nb.fit(rows, out=out, overwrite=True, resume=True, **options)
    with pytest.raises(ValueError, match="no column 'kin'"):  # a mistake removes nothing
        nb.fit(rows, out=out, overwrite=True, **options | {"target": "kin"})
    assert len(nb.load_run(out).history) == 3
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text('{"editor": "vim"}')
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        nb.fit(rows, out=mine, overwrite=True, **options)
    again.decide(0, None, data=rows)
    with pytest.raises(FolderTakenError, match="holds decisions about labels"):
        nb.fit(rows, out=out, overwrite=True, **options)


def test_a_temporary_run_goes_with_its_object():
    run = nb.fit(pl.DataFrame(ROWS), target="kind", model="linear", **QUICK)
    folder = run.path
    assert run.predict(pl.DataFrame(ROWS)).shape == (200,)
    assert "out=" not in run.folder.read_command()
    assert folder.is_dir()
    del run
    gc.collect()
    assert not folder.exists()


def test_ids_name_rows_and_are_no_features(tmp_path):
    rows = pl.DataFrame(ROWS).with_columns(
        id=pl.int_range(200).cast(pl.String).str.zfill(5), note=pl.lit("call back")
    )
    rows.write_csv(tmp_path / "rows.csv")
    options = {"target": "kind", "id": "id", "exclude": "note", "model": "linear", **QUICK}
    nb.fit(tmp_path / "rows.csv", out=tmp_path / "run", **options)
    run = nb.load_run(tmp_path / "run")
    names = [column.name for column in run.saved_model.card.encoder.columns]
    assert names == ["x", "city"]
    found = run.suspects()
    assert found["id"].to_list() == [f"{row:05}" for row in found["example"]]
    new = rows.tail(3).drop("kind", "note")
    assert run.predictions(new)["id"].to_list() == ["00197", "00198", "00199"]
    new.write_csv(tmp_path / "new.csv")
    assert run.predictions(tmp_path / "new.csv")["id"].to_list() == ["00197", "00198", "00199"]
    assert "id" not in run.predictions(new.drop("id")).columns
    with pytest.raises(ValueError, match="none called 'number'"):
        run.predictions(new, id="number")
    report = (tmp_path / "run" / "report.html").read_text()
    first = found.row(0, named=True)
    assert f"{first['id']} (#{first['example']})" in report
    assert "call back" in report
    with pytest.raises(ValueError, match="cannot name the rows"):
        nb.fit(rows, target="kind", id="kind", **QUICK)


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(nb.NoiseboundError, match="is a file: `out` must be a folder"):
        nb.fit("digits", out=tmp_path / "run", **QUICK)
