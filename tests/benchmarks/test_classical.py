"""Methods without a network choose by noisy labels, and predict well."""

import pytest
import torch

import noisebound as nb
from classical import LEARNERS, PENALTIES, choose_penalty, neighbors

CENTERS = 3.0 * torch.eye(3, 8)


def blobs(count, seed):
    """Return points around three centers in eight dimensions, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(3, (count,), generator=generator)
    return CENTERS[classes] + torch.randn(count, 8, generator=generator), classes


X, TRUE = blobs(600, seed=0)
TEST, TEST_TRUE = blobs(300, seed=1)
NOISY = nb.corrupt(TRUE, "symmetric", 0.3, 3, generator=torch.Generator().manual_seed(0)).labels


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_is_outvoted(name):
    """The best rule is right in about 97 % of these overlapping blobs."""
    predicted = LEARNERS[name](X, NOISY, TEST, 0)
    assert (predicted == TEST_TRUE).double().mean() > 0.93
    assert torch.equal(predicted, LEARNERS[name](X, NOISY, TEST, 0))


def test_a_neighbor_has_no_vote_on_itself():
    """Otherwise one neighbor would predict every label, be chosen, and repeat the noise."""
    own = (neighbors(X, NOISY, X, 0) == NOISY).double().mean()
    assert own < 0.8


def test_of_equal_votes_the_nearest_counts():
    x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]).repeat(5, 1)
    labels = torch.tensor([0, 0, 1, 1]).repeat(5)
    assert neighbors(x, labels, torch.tensor([[0.8, 0.3], [0.3, 0.8]]), 0).tolist() == [0, 1]


def test_the_penalty_is_chosen_by_what_it_predicts_out_of_fold():
    """Many features of noise alone: to fit them closely is to predict worse."""
    generator = torch.Generator().manual_seed(2)
    wide = torch.cat([X, torch.randn(600, 200, generator=generator)], dim=1)
    penalty = choose_penalty(wide, NOISY, 0)
    assert penalty in PENALTIES[:-3]
    assert choose_penalty(wide, NOISY, 0) == penalty
