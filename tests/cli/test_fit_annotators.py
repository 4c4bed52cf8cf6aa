"""Several labels per example on the command line, from a table to the report and the consensus."""

import json

import numpy as np
import polars as pl
import pytest

from noisebound.cli import app
from noisebound.errors import DataError
from noisebound.pages.review.session import ReviewSession
from noisebound.runs import load_run

RATES = {"ann": 0.05, "bob": 0.25, "cy": 0.5}


def call(*words):
    app([str(word) for word in words], result_action="return_value")


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A table of three raters with gaps, its run, and the true labels."""
    folder, generator = tmp_path_factory.mktemp("rated"), np.random.default_rng(0)
    true = np.arange(300) % 3
    columns = {f"x{n}": true * (n + 1) + generator.normal(size=300) for n in range(3)}
    for name, rate in RATES.items():
        wrong = (true + generator.integers(1, 3, 300)) % 3
        label = np.where(generator.random(300) < rate, wrong, true)
        is_there = (generator.random(300) < 0.8) | (name == "ann")
        columns[name] = [f"k{each}" if there else None
                         for each, there in zip(label, is_there, strict=True)]  # fmt: skip
    pl.DataFrame(columns).write_csv(folder / "data.csv")
    call("fit", folder / "data.csv", "--target", *RATES, "--out", folder / "run", "--quick")
    return folder, [f"k{each}" for each in true]


def test_estimate_lists_the_annotators(rated, capsys):
    call("estimate", rated[0] / "run")
    text = printed(capsys)
    assert "annotator labels wrong 95% interval agreement" in text
    assert all(name in text for name in RATES)
    assert "consensus labels that are wrong" in text
    call("estimate", rated[0] / "run", "--json")
    record = json.loads(capsys.readouterr().out)
    rates = dict(zip(record["annotators"]["names"], record["annotators"]["error_rates"],
                     strict=True))  # fmt: skip
    assert rates == pytest.approx(RATES, abs=0.12)
    assert record["noise_rate"] > record["of_majority"]["noise_rate"]


def test_estimate_from_the_data_and_given_predictions(rated, capsys, tmp_path):
    folder, true = rated
    probs = np.full((300, 3), 0.1) + 0.7 * np.eye(3)[[int(each[1]) for each in true]]
    np.save(tmp_path / "probs.npy", probs)
    options = ("--target", *RATES, "--probs", tmp_path / "probs.npy")
    call("estimate", folder / "data.csv", *options)
    assert "bob" in printed(capsys)


def test_labels_alone_are_compared_without_a_model(rated, capsys, tmp_path):
    frame = pl.read_csv(rated[0] / "data.csv").select(*RATES).with_row_index("task")
    long = frame.unpivot(index="task", variable_name="worker", value_name="label").drop_nulls()
    long.write_csv(tmp_path / "crowd.csv")
    call("estimate", tmp_path / "crowd.csv")
    assert "bob" in printed(capsys)
    with pytest.raises(DataError, match="nothing to learn from"):
        call("fit", tmp_path / "crowd.csv", "--out", tmp_path / "run")


def test_the_report_shows_each_annotator(rated):
    report = (rated[0] / "run" / "report.html").read_text()
    for words in ("The annotators", "Labels by bob", "Disagreement of two annotators"):
        assert words in report


def test_labels_exports_the_consensus(rated):
    folder, true = rated
    call("labels", folder / "run", "--out", folder / "labels.csv")
    table = pl.read_csv(folder / "labels.csv")
    agreed = [(table[name] == pl.Series(true)).mean() for name in ("label", "consensus")]
    assert agreed[1] > agreed[0]
    assert agreed[1] > 0.95
    assert table["probability_consensus"].min() > 1 / 3
    assert table["labels"].max() == 3


def test_review_shows_all_labels(rated):
    run = load_run(rated[0] / "run")
    session = ReviewSession(run, run.training_data(), "Ada")
    votes = run.training_data().train.votes
    shown = session.example(0)["labels"]
    assert [name for name, _ in shown] == [
        name for name, vote in zip(RATES, votes[0].tolist(), strict=True) if vote >= 0
    ]
