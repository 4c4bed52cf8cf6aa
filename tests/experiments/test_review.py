"""The review experiment, small: orders, counts, audits and tables."""

import numpy as np
import pytest

from noisebound.errors import InvalidValueError
from noisebound.experiments import reproduce_review as experiment
from noisebound.experiments.protocol.review_data import ReviewSources, load_review_data
from noisebound.experiments.reproduce_review import ReviewRequest, reproduce_review
from noisebound.experiments.runner import review_session
from noisebound.training import TrainingConfig


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    for part, count in (("train", 400), ("test", 200)):
        true = np.arange(count) % 3
        inputs = 2 * np.eye(3, 5)[true] + generator.normal(size=(count, 5))
        labels = np.where(generator.random(count) < 0.25, (true + 1) % 3, true)
        np.savez(tmp_path / f"{part}.npz", z=inputs.astype(np.float32), y=labels, gt=true)
    return tmp_path


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_all_tables_are_written(folder, tmp_path, monkeypatch):
    quick = TrainingConfig(model="linear", epochs=4, learning_rate=0.03, measure_every=4)
    monkeypatch.setattr(experiment, "_CONFIG", quick)
    monkeypatch.setattr(review_session, "COUNTS", (30, 60))
    monkeypatch.setattr(review_session, "REPETITIONS", 2)
    monkeypatch.setattr(review_session, "AUDITED", 20)
    monkeypatch.setattr("noisebound.experiments.outcome.review_tables.COUNTS", (30, 60))
    sources = ReviewSources(folders={"noisy-ag-news": folder})
    outcome = reproduce_review(ReviewRequest(sources, ["noisy-ag-news"]), tmp_path / "out")
    audits, sessions, rates = outcome.tables
    assert [row.label for row in sessions.rows] == list(review_session.ORDERS)
    assert len(sessions.records) == len(rates.records) == 10
    assert {record["decisions"] for record in sessions.records} == {30, 60}
    found = {(each["order"], each["decisions"]): each["wrong"] for each in sessions.records}
    assert found["noisebound", 60] > found["random", 60]
    assert len(audits.records) == 2
    assert (tmp_path / "out" / "review-noisy-ag-news.md").exists()


def test_what_is_missing_is_named(folder):
    with pytest.raises(InvalidValueError, match="`text_backbone`"):
        load_review_data("noisy-ag-news", ReviewSources())
    with pytest.raises(InvalidValueError, match="must be among"):
        ReviewRequest(ReviewSources(), ["mnist"]).chosen_sets()
