"""The review experiment, small: orders, counts, audits and tables."""

import pytest
import torch

from noisebound.data import Dataset, Splits
from noisebound.errors import InvalidValueError
from noisebound.paper import reproduce_review as experiment
from noisebound.paper.protocol.review_data import load_review_data
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.reproduce_review import ReviewRequest, reproduce_review
from noisebound.paper.runner import review_session
from noisebound.training import TrainingConfig


class Clouds(DataSources):
    """Three clouds in place of any data set, a quarter of them labeled wrong."""

    def vectors(self, dataset):
        generator = torch.Generator().manual_seed(0)
        true = torch.arange(600) % 3
        inputs = 2 * torch.eye(3, 5)[true] + torch.randn(600, 5, generator=generator)
        is_wrong = torch.rand(600, generator=generator) < 0.25
        labels = torch.where(is_wrong, (true + 1) % 3, true)
        names = ("a", "b", "c")
        train = Dataset(inputs[:400], labels[:400], names, true_labels=true[:400])
        return Splits(dataset, train, Dataset(inputs[400:], true[400:], names), source="made")


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_all_tables_are_written(tmp_path, monkeypatch):
    quick = TrainingConfig(model="linear", epochs=4, learning_rate=0.03, measure_every=4)
    monkeypatch.setattr(experiment, "_CONFIG", quick)
    monkeypatch.setattr(review_session, "COUNTS", (30, 60))
    monkeypatch.setattr(review_session, "REPETITIONS", 2)
    monkeypatch.setattr(review_session, "AUDITED", 20)
    monkeypatch.setattr("noisebound.paper.outcome.review_tables.COUNTS", (30, 60))
    outcome = reproduce_review(ReviewRequest(Clouds(), ["noisy-ag-news"]), tmp_path / "out")
    audits, sessions, rates = outcome.tables
    assert [row.label for row in sessions.rows] == list(review_session.ORDERS)
    assert len(sessions.records) == len(rates.records) == 10
    assert {record["decisions"] for record in sessions.records} == {30, 60}
    found = {(each["order"], each["decisions"]): each["wrong"] for each in sessions.records}
    assert found["noisebound", 60] > found["random", 60]
    assert len(audits.records) == 2
    assert (tmp_path / "out" / "review-noisy-ag-news.md").exists()


def test_what_is_missing_is_named():
    with pytest.raises(InvalidValueError, match="`backbone`"):
        load_review_data("noisy-ag-news", DataSources())
    with pytest.raises(InvalidValueError, match="must be among"):
        ReviewRequest(DataSources(), ["mnist"]).chosen_sets()
