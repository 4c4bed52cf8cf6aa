"""Suspects of losses come from the mixture that scikit-learn fits, without scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

import noisebound as nb


def bimodal(wrong=0.2, gap=2.5, width=0.4, n=3000):
    generator = torch.Generator().manual_seed(n)
    is_wrong = torch.rand(n, generator=generator) < wrong
    return (gap * is_wrong + width * torch.randn(n, generator=generator)).double()


def skewed(n=2000):
    return -torch.rand(n, generator=torch.Generator().manual_seed(1)).double().log()


def reference(losses):
    """GaussianMixture's log-odds from the same start: the two parts with the least variance."""
    column = losses.numpy()[:, None]
    ascending = np.sort(column, axis=0)
    within = [
        ascending[:k].var() * k + ascending[k:].var() * (len(column) - k)
        for k in range(1, len(column))
    ]
    k = 1 + int(np.argmin(within))
    mixture = GaussianMixture(
        2,
        covariance_type="tied",
        weights_init=np.array([k, len(column) - k]) / len(column),
        means_init=np.quantile(column, [0.1, 0.9])[:, None],
        precisions_init=np.array([[1 / (min(within) / len(column) + 1e-6)]]),
    ).fit(column)
    log_odds = np.log(mixture.predict_proba(column) + 1e-300)
    low, high = mixture.means_.flatten().argsort()
    return torch.from_numpy(log_odds[:, high] - log_odds[:, low])


@pytest.mark.parametrize(
    "losses",
    [
        bimodal(),
        bimodal(wrong=0.4, gap=1.5, width=0.8),
        bimodal(wrong=0.05, gap=3, width=1, n=300),
        bimodal(n=40) * 100 + 1e4,
        bimodal(wrong=0.5, gap=1, width=0, n=50),
        skewed(),
        torch.tensor([0.0, 1.0]).double(),
    ],
    ids=["apart", "overlapping", "few", "far from zero", "two values", "skewed", "two losses"],
)
def test_the_mixture_is_that_of_scikit_learn(losses):
    suspects = nb.find_suspects(losses, torch.zeros(len(losses), dtype=torch.long))
    expected = reference(losses)
    torch.testing.assert_close(suspects.probability, expected.sigmoid(), atol=1e-6, rtol=0)
    inner = expected.abs() < 100  # beyond that, scikit-learn's probabilities are 0 or 1
    torch.testing.assert_close(suspects.score[inner], expected[inner], atol=1e-6, rtol=1e-6)


def test_the_same_losses_give_the_same_result():
    losses = bimodal(wrong=0.05, gap=3, width=1)
    labels = torch.zeros(len(losses), dtype=torch.long)
    first, second = (nb.find_suspects(losses, labels).score for _ in range(2))
    assert torch.equal(first, second)
