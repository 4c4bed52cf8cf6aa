"""Peers without a network of their own choose by noisy labels, and predict well."""

import pytest
import torch

from noisebound.corruption import corrupt
from noisebound.paper.runner.classical import (
    PENALTIES,
    Learned,
    choose_penalty,
    cleanlab,
    logistic,
    neighbors,
)

CENTERS = 3.0 * torch.eye(3, 8)


def blobs(count, seed):
    """Return points around three centers in eight dimensions, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(3, (count,), generator=generator)
    return CENTERS[classes] + torch.randn(count, 8, generator=generator), classes


X, TRUE = blobs(600, seed=0)
TEST, TEST_TRUE = blobs(300, seed=1)
NOISY = corrupt(TRUE, "symmetric", 0.3, 3, generator=torch.Generator().manual_seed(0)).labels


def accuracy(learned):
    return (learned.test == TEST_TRUE).double().mean().item()


@pytest.mark.parametrize("learn", [logistic, neighbors, cleanlab], ids=lambda each: each.__name__)
def test_noise_is_outvoted(learn):
    """The best rule is right in about 97 % of these overlapping blobs."""
    learned = learn(X, NOISY, TEST, 0)
    assert accuracy(learned) > 0.93
    assert 0.5 < learned.settings["accuracy"] < 0.75  # of noisy labels: at most 0.7 is to be had
    assert torch.equal(learned.test, learn(X, NOISY, TEST, 0).test)


def test_noise_asks_for_more_neighbors():
    noisy, clean = (neighbors(X, labels, TEST, 0).settings["k"] for labels in (NOISY, TRUE))
    assert noisy >= 10
    assert clean <= noisy


def test_a_neighbor_has_no_vote_on_itself():
    """Otherwise one neighbor would predict every label, and would always be chosen."""
    learned = neighbors(X, NOISY, TEST, 0)
    agreement = (learned.train == NOISY[learned.asked]).double().mean().item()
    assert agreement == pytest.approx(learned.settings["accuracy"])


def test_of_equal_votes_the_nearest_counts():
    x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]).repeat(5, 1)
    labels = torch.tensor([0, 0, 1, 1]).repeat(5)
    assert neighbors(x, labels, torch.tensor([[0.8, 0.3], [0.3, 0.8]]), 0).test.tolist() == [0, 1]


def test_the_penalty_is_chosen_by_what_it_predicts_out_of_fold():
    """Many features of noise alone: to fit them closely is to predict worse."""
    generator = torch.Generator().manual_seed(2)
    wide = torch.cat([X, torch.randn(600, 200, generator=generator)], dim=1)
    penalty, share = choose_penalty(wide, NOISY, 0)
    assert penalty in PENALTIES[:-3]
    assert 0.5 < share < 0.75
    assert choose_penalty(wide, NOISY, 0) == (penalty, share)


def test_cleanlab_says_how_many_labels_it_left_out():
    assert cleanlab(X, NOISY, TEST, 0).settings["pruned"] == pytest.approx(0.3, abs=0.1)


def test_wrong_labels_that_are_reproduced():
    from noisebound.data import Dataset

    train = Dataset(torch.zeros(4, 1), torch.tensor([0, 1, 1, 0]), ("a", "b"))
    learned = Learned(torch.tensor([0]), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 3]), {})
    assert learned.memorized(train) is None
    noisy = train.with_labels(torch.tensor([0, 1, 0, 1]))
    assert learned.memorized(noisy) == 0.0
    assert learned.memorized(train.with_labels(train.labels)) is None
