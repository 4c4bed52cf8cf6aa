"""Several labels per example: the data of the benchmark and its simplest contender."""

import numpy as np
import pytest
import torch

from annotator_settings import HUMAN, SETTINGS, planted, shown_and_true
from annotators import majority, rate_by_pairs


def test_no_data_set_is_in_both_halves():
    halves = [{each.dataset for each in SETTINGS if each.half == half} for half in ("dev", "judge")]
    assert not halves[0] & halves[1]
    assert set(HUMAN) <= halves[0] | halves[1]


def test_the_truth_is_the_majority_of_the_ratings_that_are_not_shown():
    ratings = [np.array([0] * 5 + [2] * 10), np.array([1] * 15)]
    labels, true = shown_and_true(ratings, 3, seed=0)
    assert labels.shape == (2, 3)
    assert true.tolist() == [2, 1]
    assert labels[1].tolist() == [1, 1, 1]


def test_planted_annotators_err_as_planted():
    data = planted("topics", 3, seed=0)
    has = data.labels >= 0
    assert (has.sum(1) == 3).all()
    assert data.names is not None
    wrong = ((data.labels != data.true[:, None]) & has).sum(0) / has.sum(0)
    rates = dict(zip(data.names, wrong.tolist(), strict=True))
    assert rates["good"] == pytest.approx(0.1, abs=0.03)
    assert rates["spammer"] == pytest.approx(0.75, abs=0.05)


def test_pairs_of_independent_labels_give_the_rate():
    g = torch.Generator().manual_seed(0)
    true = torch.randint(3, (20_000, 1), generator=g)
    wrong = torch.rand(20_000, 2, generator=g) < 0.2
    labels = (true + wrong * torch.randint(1, 3, (20_000, 2), generator=g)) % 3
    missing = torch.full((20_000, 1), -1)
    assert rate_by_pairs(torch.cat([labels, missing], 1), 3) == pytest.approx(0.2, abs=0.01)


def test_majority_ignores_missing_labels():
    labels = torch.tensor([[-1, 2, -1], [1, 1, 0]])
    assert majority(labels, 3, seed=0).tolist() == [2, 1]
