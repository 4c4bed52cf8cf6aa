"""Several labels at once: a two-class run for each, and one object over them."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

import noisebound as nb
from multi_label_data import NAMES, as_table, examples
from noisebound.errors import DataError, FolderTakenError, RunError
from noisebound.estimation.multi_label import of_true_label
from noisebound.runs import MultiLabelRun
from noisebound.runs.folder import RunFolder
from noisebound.runs.multi_label import train_labels
from noisebound.runs.train import train_run
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import OneDevice

X, TRUE, NOISY = examples()
QUICK = {"quick": True, "show": False, "n_jobs": 1, "report": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run of a table with a test table, trained once for all tests that only read."""
    folder = tmp_path_factory.mktemp("labels")
    as_table(X[:300], NOISY[:300]).write_csv(folder / "train.csv")
    as_table(X[300:], TRUE[300:]).write_csv(folder / "test.csv")
    options = {"targets": NAMES, "test": folder / "test.csv", "out": folder / "run"}
    return folder, nb.fit(folder / "train.csv", **options, **QUICK | {"report": True})


@pytest.fixture(scope="module")
def run(files):
    return files[1]


def test_a_run_for_each_label(run):
    assert isinstance(run, nb.MultiLabelRun)
    assert run.labels == NAMES
    for name in NAMES:
        assert run.runs[name].saved_model.card.class_names == ("absent", "present")
        assert run.runs[name].label == name
        assert run.runs[name].noise.out_of_fold.counts_alike  # a rare label is not drowned
        assert (run.runs[name].path / "report.html").exists()
    assert "01-odd/report.html" in run.folder.report.read_text()


def test_predictions(files, run):
    folder, _ = files
    probs, found = run.predict_proba(folder / "test.csv"), run.predict(folder / "test.csv")
    assert probs.shape == found.shape == (100, 3)
    np.testing.assert_array_equal(found, probs > 0.5)
    for k, name in enumerate(NAMES):
        one = run.runs[name]
        alone = one.predict_proba(folder / "test.csv")[:, 1]
        true = of_true_label(alone, one.noise.transition, one.recipe.share_as_given)
        np.testing.assert_array_equal(probs[:, k], true)
    assert (found == TRUE[300:]).mean() > 0.8
    frame = run.predictions(folder / "test.csv")
    assert frame.columns == ["example", *NAMES, *(f"p({name})" for name in NAMES)]
    assert frame[list(NAMES)].to_numpy().tolist() == found.tolist()
    with pytest.raises(DataError, match=r"the run of one label, such as .*01-odd"):
        run.predictions(folder / "test.csv", coverage=0.9)


def test_the_run_is_found_again(files, run):
    again = nb.load_run(run.path)
    assert isinstance(again, MultiLabelRun)
    np.testing.assert_array_equal(again.predict(X_frame()), run.predict(X_frame()))
    assert again.noise.equals(run.noise)
    assert again.suspects().equals(run.suspects())
    assert again.scores == run.scores
    one = nb.load_run(run.runs["loop"].path)
    assert one.suspects().equals(run.runs["loop"].suspects())


def X_frame():
    return as_table(X, TRUE).drop(NAMES)


def test_missed_labels_are_estimated_and_found(run):
    noise = run.noise
    assert noise["label"].to_list() == list(NAMES)
    assert (noise["missed"] - 0.2).abs().max() < 0.15
    assert noise["added"].max() < 0.1
    for rate in ("missed", "added", "noise_rate"):
        assert (noise[f"{rate}_low"] <= noise[rate]).all()
        assert (noise[f"{rate}_high"] >= noise[rate]).all()
    assert (noise["missed_low"] <= 0.2).all()
    assert (noise["missed_high"] >= 0.15).all()
    suspects = run.suspects()
    assert len(suspects) == 900
    assert suspects["probability_wrong"].is_sorted(descending=True)
    first = suspects.head(60)
    was_missed = [
        NOISY[example, NAMES.index(label)] != TRUE[example, NAMES.index(label)]
        for example, label in zip(first["example"], first["label"], strict=True)
    ]
    assert np.mean(was_missed) > 0.5
    assert set(suspects["suspect"]) == {"missing", "added"}
    assert first["suspect"].to_list().count("missing") > 40


def test_scores_on_the_test_set(files, run):
    probs, true = run.predict_proba(files[0] / "test.csv"), TRUE[300:]
    scores = run.scores
    assert scores.macro_f1 == pytest.approx(f1_score(true, probs > 0.5, average="macro"))
    assert scores.micro_f1 == pytest.approx(f1_score(true, probs > 0.5, average="micro"))
    assert scores.average_precision == pytest.approx(average_precision_score(true, probs))
    assert scores.subset_accuracy == pytest.approx(((probs > 0.5) == true).all(1).mean())
    assert scores.labels["odd"] == run.runs["odd"].scores


def test_missing_labels_and_test_labels_do_not_count():
    holed = NOISY.astype(float)
    holed[::3, 0] = np.nan
    run = nb.fit((X, holed), targets=NAMES, **QUICK)
    odd = run.suspects((X, holed)).filter(label="odd")
    assert len(odd) == (np.arange(len(X)) % 3 > 0).sum()
    assert all(example % 3 for example in odd["example"])
    assert run.runs["odd"].training_data((X, holed)).train_names[:3] == ("1", "2", "4")
    assert run.predict(X).shape == (400, 3)
    assert run.scores.macro_f1 is None
    corrected = run.corrected_labels((X, holed))
    assert corrected["odd"].null_count() == (np.arange(len(X)) % 3 == 0).sum()


def test_an_interrupted_fit_resumes_at_its_label(tmp_path, monkeypatch):
    trained = []

    def interrupted(splits, *args, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(options["origin"].label)
        return train_run(splits, *args, **options)

    monkeypatch.setattr("noisebound.runs.multi_label.train_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", **QUICK)
    assert trained == ["odd"]
    with pytest.raises(RunError, match="not finished: it has 1 of 3 labels; continue it with"):
        nb.load_run(tmp_path / "run")
    monkeypatch.undo()
    second = tmp_path / "run" / "labels" / "02-large"
    second.mkdir()
    (second / "config.json").write_bytes((tmp_path / "run" / "config.json").read_bytes())
    with pytest.raises(RunError, match="it has 1 of 3 labels"):  # interrupted in the second
        nb.load_run(tmp_path / "run")
    first = (tmp_path / "run" / "labels" / "01-odd" / "result.json").read_bytes()
    with pytest.raises(FolderTakenError):
        nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", **QUICK)
    other = {"targets": ("odd", "big", "loop"), "out": tmp_path / "run", "resume": True}
    with pytest.raises(RunError, match="holds a run of the labels odd, large, loop, and these"):
        nb.fit((X, NOISY), **other, **QUICK)
    run = nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", resume=True, **QUICK)
    assert (run.runs["odd"].path / "result.json").read_bytes() == first
    straight = nb.fit((X, NOISY), targets=NAMES, **QUICK)
    np.testing.assert_array_equal(run.predict_proba(X), straight.predict_proba(X))


def test_decisions_are_exported_and_trained_with(tmp_path, monkeypatch, capsys):
    run = nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", **QUICK)
    place = int(run.suspects((X, NOISY)).filter(label="loop", suspect="missing")["example"][0])
    run.runs["loop"].decide(place, "present", data=(X, NOISY))
    table = run.corrected_labels((X, NOISY))
    assert table["loop"][place] == 1
    assert table["changed"].to_list().count("loop") == 1
    assert table[list(NAMES)].to_numpy().sum() == NOISY.sum() + 1
    options = {"targets": NAMES, "corrections": tmp_path / "run", **QUICK}
    again = nb.fit((X, NOISY), **options)
    assert again.runs["loop"].result.checks.changed == 1
    assert again.runs["odd"].result.checks is None
    with pytest.raises(RunError, match="holds a run with several labels: choose another folder"):
        nb.fit((X, NOISY[:, 0]), out=tmp_path / "run", resume=True, **QUICK)
    with pytest.raises(FolderTakenError, match="holds decisions about labels"):
        nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", overwrite=True, **QUICK)
    with pytest.raises(DataError, match="is no run with several labels"):
        nb.fit((X, NOISY), targets=NAMES, corrections=tmp_path, **QUICK)
    monkeypatch.setattr("noisebound.runs.multi_label.train_run", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        nb.fit((X, NOISY), **options | {"targets": ("odd", "large", "other"), "show": True})
    assert "decisions about loop are not used: the data has no such" in capsys.readouterr().err


def test_labels_that_cannot_be_learned():
    for column, why in ((0, "is never there"), (1, "is always there")):
        with pytest.raises(DataError, match=f"the label 'large' .* {why}: it takes 5"):
            nb.fit((X, np.where([[0, 1, 0]], column, NOISY)), targets=NAMES, **QUICK)
    rare = NOISY.copy()
    rare[3:, 1] = 0
    rare[:3, 1] = 1
    with pytest.raises(DataError, match=r"has 3 examples with it.*leave it out of `targets`"):
        nb.fit((X, rare), targets=NAMES, **QUICK)


def test_rare_labels_of_lists_are_left_out(capsys):
    cells = [";".join(name for name, has in zip(NAMES, row, strict=True) if has) for row in NOISY]
    cells[7] += ";unique"
    table = as_table(X, NOISY).drop(NAMES).with_columns(tags=cells_of(cells))
    run = nb.fit(table, targets="tags", **QUICK | {"show": True})
    assert run.labels == ("large", "loop", "odd")
    assert run.record.left_out == {"unique": "has 1 example with it"}
    assert "'unique' has 1 example with it" in capsys.readouterr().err
    assert run.predict(table).shape == (400, 3)
    corrected = run.corrected_labels(table)
    assert corrected.columns == ["example", *run.labels, "unique", "changed"]
    assert corrected["unique"].to_list() == [int(row == 7) for row in range(400)]


def cells_of(cells):
    import polars as pl

    return pl.Series([cell or ";" for cell in cells])


def test_a_network_of_the_users_own_for_each_label(tmp_path):
    options = {"epochs": 2, "show": False, "model": torch.nn.Linear(4, 2)}
    run = nb.fit((X, NOISY), targets=NAMES, out=tmp_path / "run", noise_rate=0.1, **options)
    again = nb.load_run(tmp_path / "run", model=torch.nn.Linear(4, 2))
    np.testing.assert_array_equal(again.predict_proba(X), run.predict_proba(X))


def test_the_metrics_of_each_label_are_logged_under_its_name():
    logged, ended = [], []

    class Tracker:
        def log_metrics(self, metrics, step):
            logged.append((step, set(metrics)))

        def finalize(self, status):
            ended.append(status)

    options = {"epochs": 2, "recipe": "plain", "show": False, "report": False}
    nb.fit((X, NOISY), targets=NAMES, logger=Tracker(), **options)
    assert [step for step, _ in logged] == [1, 2, 3, 4, 5, 6]
    assert "odd/train_loss" in logged[0][1]
    assert all(name.startswith("loop/") for name in logged[-1][1])
    assert ended == ["success"]


def test_a_users_own_labels_are_not_a_run(run, tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "photo.txt").write_text("0 0.5 0.5 1 1")
    (tmp_path / "labels.json").write_text(json.dumps({"classes": [], "labels": {}}))
    (tmp_path / "config.json").write_bytes(run.folder.config.read_bytes())
    assert not folder.is_of_labels
    with pytest.raises(FolderTakenError, match="labels is not of a run: choose another folder"):
        nb.fit((X, NOISY), targets=NAMES, out=tmp_path, overwrite=True, **QUICK)
    folder.remove_run()
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == {
        "labels",
        "labels.json",
    }
    assert (tmp_path / "labels" / "photo.txt").exists()
    assert run.folder.is_of_labels
    assert not RunFolder(run.runs["odd"].path).is_of_labels


def test_long_names_have_short_folders(tmp_path):
    assert len(RunFolder(tmp_path).of_label(0, "x" * 300).path.name) == 63


@pytest.mark.parametrize("name", ["example", "id", "changed"])
def test_labels_cannot_have_the_names_of_columns(name):
    with pytest.raises(DataError, match=f"is called '{name}'.*: rename the label"):
        nb.fit((X, NOISY), targets=("odd", name, "loop"), **QUICK)


def test_a_run_of_labels_is_not_pushed_as_one(run):
    with pytest.raises(RunError, match=r"push the run of each label, such as `run.runs\['odd'\]"):
        run.push_to_hub("user/labels")


def test_the_loggers_of_devices_get_each_label_once(tmp_path):
    logged, ended = [], []

    class Tracker:
        def log_metrics(self, metrics, step):
            logged.append(set(metrics))

        def finalize(self, status):
            ended.append(status)

    devices = OneDevice()
    devices.loggers = [Tracker()]
    splits = nb.data.load((X, NOISY), targets=NAMES)
    config = TrainingConfig(epochs=1, recipe="plain")
    train_labels(splits, config, tmp_path / "run", fabric=devices, show=False)
    assert len(logged) == 3
    assert "odd/train_loss" in logged[0]
    assert ended == ["success"]
