"""The commands on data with several labels at once, from a table to a second training."""

import json

import polars as pl
import pytest

from multi_label_data import NAMES, as_table, examples
from noisebound.cli import app
from noisebound.errors import InvalidValueError
from noisebound.runs import load_run

X, TRUE, NOISY = examples(300)
QUICK = ("--targets", *NAMES, "--quick", "--jobs", 1)


def call(*words):
    app([str(word) for word in words], result_action="return_value")


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    as_table(X[:200], NOISY[:200]).write_csv(folder / "train.csv")
    as_table(X[200:], TRUE[200:]).write_csv(folder / "test.csv")
    options = ("--test", folder / "test.csv", "--out", folder / "run")
    call("fit", folder / "train.csv", *QUICK, *options)
    return folder


def test_fit_prints_the_noise_and_the_scores(folder, tmp_path, capsys):
    call("fit", folder / "train.csv", *QUICK, "--test", folder / "test.csv", "--out", tmp_path)
    text = printed(capsys)
    assert "label missed 95% interval added 95% interval true labels right odd" in text
    assert all(name in text for name in NAMES)
    assert "on the test set: macro-F1 " in text
    assert "all labels right" in text


def test_fit_and_estimate_as_json(folder, tmp_path, capsys):
    call("estimate", folder / "run", "--json", "--out", tmp_path / "noise.json")
    record = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in record["labels"]] == list(NAMES)
    assert json.loads((tmp_path / "noise.json").read_text()) == record
    call("fit", folder / "train.csv", *QUICK, "--out", tmp_path / "run", "--json")
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["labels"][0]["missed"] == pytest.approx(record["labels"][0]["missed"])
    assert fitted["labels"][0]["scores"]["validation"]["examples"] == 20
    assert fitted["scores"]["macro_f1"] is None


def test_estimate_without_a_run(folder, capsys):
    call("estimate", folder / "train.csv", "--targets", "odd", "loop", "--exclude", "large")
    text = printed(capsys)
    assert "label missed 95% interval added 95% interval odd" in text


def test_predict(folder, capsys):
    call("predict", folder / "run", folder / "test.csv", "--out", folder / "labels.csv")
    table = pl.read_csv(folder / "labels.csv")
    assert table.columns == ["example", *NAMES, *(f"p({name})" for name in NAMES)]
    assert (table[list(NAMES)].to_numpy() == TRUE[200:]).mean() > 0.8
    assert "100 labels" in capsys.readouterr().out


def test_suspects(folder, capsys):
    call("suspects", folder / "run", "--out", folder / "suspects.csv")
    table = pl.read_csv(folder / "suspects.csv")
    assert len(table) == 600
    assert set(table["suspect"]) == {"missing", "added"}
    assert "600 pairs of an example and a label, of which about" in capsys.readouterr().out
    assert "missing" in (folder / "suspects.html").read_text()


def test_report(folder, capsys):
    call("report", folder / "run", "--out", folder / "page.html")
    assert "macro-F1 on the test set" in (folder / "page.html").read_text()


def test_labels_and_a_second_training(folder, tmp_path, capsys):
    run = load_run(folder / "run")
    run.runs["odd"].decide(0, "absent" if NOISY[0, 0] else "present", by="Ada")
    call("labels", folder / "run", "--out", tmp_path / "labels.csv")
    assert "200 examples, 1 of them corrected" in printed(capsys)
    table = pl.read_csv(tmp_path / "labels.csv")
    assert table["odd"][0] == 1 - NOISY[0, 0]
    assert table["changed"][0] == "odd"
    again = ("--corrections", folder / "run", "--out", tmp_path / "again")
    call("fit", folder / "train.csv", *QUICK, *again)
    assert load_run(tmp_path / "again").runs["odd"].result.checks.changed == 1
    with pytest.raises(InvalidValueError, match=r"export the run of one label, such as .*01-odd"):
        call("labels", folder / "run", "--out", tmp_path / "x.json", "--format", "argilla")


def test_the_review_of_a_label_trains_all_labels_again(folder):
    from noisebound.pages.review.session import ReviewSession

    one = load_run(folder / "run").runs["loop"]
    (_, again) = ReviewSession(one, one.training_data(), "Ada").finish()["commands"]
    assert f"--targets {' '.join(NAMES)}" in again
    assert f"--corrections {folder / 'run'} --out {folder / 'run-reviewed'}" in again
    assert "--label" not in again


def test_a_second_opinion_is_of_one_label(folder):
    with pytest.raises(InvalidValueError, match="name one of them as `label`: odd, large, loop"):
        call("review", folder / "run", "--no-open", "--second-opinion", 5)
