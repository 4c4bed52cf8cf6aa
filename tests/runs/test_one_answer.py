"""One run states one noise rate, one number of wrong labels and one number of labels to check."""

import numpy as np
import polars as pl
import pytest

import noisebound as nb
from noisebound.cli.estimate import _Training, estimate
from noisebound.cli.fit import _print_run
from noisebound.cli.options import ReadingFlags
from noisebound.cli.review import suspects
from noisebound.errors import InvalidValueError
from noisebound.estimation.trusted import labels_to_check
from noisebound.pages.review.session import ReviewSession

EXAMPLES = 300
SETTINGS = {"epochs": 6, "batch_size": 50}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two overlapping classes; every fifth label is wrong."""
    generator = np.random.default_rng(0)
    true = generator.integers(2, size=EXAMPLES)
    inputs = generator.normal(size=(EXAMPLES, 3)) + 2.5 * true[:, None]
    labels = np.where(np.arange(EXAMPLES) % 5 == 0, 1 - true, true)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    columns = {f"x{number}": inputs[:, number] for number in range(3)}
    pl.DataFrame({**columns, "label": np.array(["no", "yes"])[labels]}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("one-answer") / "run"
    return nb.fit(table, target="label", out=out, show=False, **SETTINGS)


def lines_of(capsys):
    return capsys.readouterr().out.splitlines()


def test_fit_and_estimate_state_the_same_rate(run, table, capsys):
    stated = f"estimated noise rate: {run.noise.estimate.summary}"
    _print_run(run)
    assert lines_of(capsys)[0] == stated
    estimate(str(run.path))
    stored = lines_of(capsys)
    assert stored[0].startswith(stated)
    estimate(str(table), reading=ReadingFlags(target="label"), config=_Training(**SETTINGS))
    again = lines_of(capsys)
    assert again[:2] == stored[:2]  # the rate and what it rests on
    assert again[-1] == stored[-1]  # the labels to check


def test_the_report_the_review_and_the_suspects_agree(run, tmp_path, capsys):
    found = run.noise.estimate
    page = run.folder.report.read_text()
    assert found.summary in page
    assert "if mistakes cannot be predicted from the inputs" in page
    expected = round(found.noise_rate * EXAMPLES)
    assert f"About {expected} of {EXAMPLES} labels are probably wrong" in page
    suspects(run.path, out=tmp_path / "suspects.csv")
    assert f"of which about {expected} are probably wrong" in lines_of(capsys)[0]
    assert f"check {found.labels_to_check:,} labels by hand" in page
    review = ReviewSession(run, run.training_data(), "a person")
    sizes = {each["points"]: each["labels"] for each in review.audit()["sizes"]}
    assert sizes[3] == found.labels_to_check == labels_to_check(found.noise_rate, EXAMPLES)
    assert sizes[5] == labels_to_check(found.noise_rate, EXAMPLES, 0.05)
    assert run.audit().result().run_rate == found.noise_rate


def test_a_given_rate_is_stated_as_given(table, tmp_path, capsys):
    given = nb.fit(
        table, target="label", out=tmp_path / "run", noise_rate=0.1, epochs=1, show=False
    )
    estimate(str(given.path))
    assert lines_of(capsys) == ["given noise rate: 10.0%"]
    with pytest.raises(InvalidValueError, match="its own estimate"):
        estimate(str(given.path), method="anchor")
