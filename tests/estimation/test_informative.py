"""Whether predictions have anything to do with the labels, however unequal the classes are."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from noisebound.estimation import EstimatedNoise, OutOfFold, UnknownNoise, estimated_noise
from noisebound.estimation.predictions import are_informative

SHARES = [[0.5, 0.5], [0.92, 0.08], [0.97, 0.03], [0.1] * 10, [0.6, 0.3, 0.1]]


def imbalanced(seed=0, n=3000, minority=0.08, rate=0.14):
    """A model that ranks a rare class well, and is sure of the common one only."""
    generator = torch.Generator().manual_seed(seed)
    true = (torch.rand(n, generator=generator) < minority).long()
    is_wrong = torch.rand(n, generator=generator) < rate
    labels = torch.where(is_wrong, 1 - true, true)
    logit = 2.0 * true - 2.2 + 0.5 * torch.randn(n, generator=generator)
    probs = torch.stack([-logit, logit], 1).double().mul(0.5).softmax(1)
    return probs, labels, is_wrong


class TestImbalancedClasses:
    """A good ranking of a rare class is no more accurate than the common class alone."""

    def test_the_predictions_are_no_more_accurate_than_the_common_label(self):
        probs, labels, _ = imbalanced()
        commonest = labels.bincount().max() / len(labels)
        assert (probs.argmax(1) == labels).double().mean() < commonest + 0.02

    @pytest.mark.parametrize("seed", range(3))
    def test_the_estimate_stands(self, seed):
        probs, labels, is_wrong = imbalanced(seed)
        found = nb.estimate_noise(probs, labels)
        assert found.diagnostics.rejection is None
        low, high = found.interval
        assert low <= is_wrong.double().mean() <= high

    def test_fit_knows_the_noise_and_shows_the_suspects(self):
        probs, labels, is_wrong = imbalanced()
        noise = estimated_noise(OutOfFold(probs.log(), labels, torch.arange(len(labels))))
        assert isinstance(noise, EstimatedNoise)
        assert noise.unknown_because is None
        suspects = nb.find_suspects(probs, labels)  # without a warning
        assert roc_auc_score(is_wrong, suspects.score) > 0.9


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("n", [60, 400, 3000])
def test_shuffled_labels_are_recognized(shares, n):
    """In nearly all of forty draws, sharp and flat, with the shares of the labels and without."""
    passed = 0
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.multinomial(torch.tensor(shares), n, replacement=True, generator=generator)
        logits = (0.3, 1.0, 4.0, 8.0)[seed % 4] * torch.randn(n, len(shares), generator=generator)
        logits += (seed // 4 % 2) * torch.tensor(shares).log()
        passed += are_informative(logits.double().softmax(1), labels)
    assert passed <= 2


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_weak_but_real_evidence_is_recognized(shares, temperature):
    """However sure the model is of itself, and although a fifth of the labels are wrong."""
    found = 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        true = torch.multinomial(torch.tensor(shares), 3000, replacement=True, generator=generator)
        labels = nb.corrupt(true, "symmetric", 0.2, len(shares), generator=generator).labels
        logits = torch.randn(3000, len(shares), generator=generator)
        logits += 1.5 * torch.eye(len(shares))[true]
        found += are_informative((logits / temperature).double().softmax(1), labels)
    assert found >= 19


def test_every_way_in_gives_the_same_answer():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(500, generator=generator) < 0.08).long()
    probs = torch.randn(500, 2, generator=generator).double().softmax(1)
    reason = nb.estimate_noise(probs, labels).diagnostics.rejection
    assert "nothing to do with the labels" in reason
    noise = estimated_noise(OutOfFold(probs.log(), labels, torch.arange(500)))
    assert isinstance(noise, UnknownNoise)
    assert noise.unknown_because == reason
    with pytest.warns(UserWarning, match="nothing to do with the labels"):
        nb.find_suspects(probs, labels)


def test_constant_predictions_are_not_evidence():
    labels = torch.arange(1000) % 3
    for probs in (torch.full((1000, 3), 1 / 3), torch.tensor([[0.1, 0.2, 0.7]]).expand(1000, 3)):
        assert not are_informative(probs, labels)
