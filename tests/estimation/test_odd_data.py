"""Small and odd data: an honest interval or an honest warning, and never an exception."""

import pytest
import torch

import noisebound as nb
from noisebound.estimation import EstimatedNoise, OutOfFold, UnknownNoise, estimated_noise


def predictions(true, num_classes, sharpness=4.0, seed=0):
    """Predictions of a model that knows the true class up to some confusion."""
    g = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.nn.functional.one_hot(true, num_classes).double()
    return (logits + torch.randn(logits.shape, generator=g, dtype=torch.float64)).softmax(1)


def drawn(n, shares, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.multinomial(torch.tensor(shares), n, replacement=True, generator=g)


def symmetric(true, rate, num_classes):
    g = torch.Generator().manual_seed(1)
    return nb.corrupt(true, "symmetric", rate, num_classes, generator=g).labels


def in_one_class(true, rate):
    is_flipped = (true == 0) & (
        torch.rand(len(true), generator=torch.Generator().manual_seed(1)) < rate
    )
    return torch.where(is_flipped, 1, true)


def late_in_the_file(true, num_classes):
    noisy = symmetric(true, 0.6, num_classes)
    return torch.where(torch.arange(len(true)) < len(true) // 2, true, noisy)


CASES = {
    "60 examples": (t := drawn(60, [0.5, 0.5]), symmetric(t, 0.2, 2), 2),
    "95 to 5": (t := drawn(1000, [0.95, 0.05]), symmetric(t, 0.2, 2), 2),
    "200 classes": (t := torch.arange(200).repeat(10), symmetric(t, 0.3, 200), 200),
    "noise in one class": (t := drawn(900, [1.0, 1, 1]), in_one_class(t, 0.4), 3),
    "noise late in the file": (t := drawn(900, [1.0, 1, 1]), late_in_the_file(t, 3), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_interval_contains_the_truth_or_a_warning_explains(case):
    true, labels, num_classes = CASES[case]
    rate = (labels != true).double().mean().item()
    probs = predictions(true, num_classes)
    second = predictions(true, num_classes, seed=2)
    for found in (
        nb.estimate_noise(probs, labels),
        nb.estimate_noise(probs, labels, second_probs=second),
    ):
        low, high = found.interval
        assert low <= rate <= high or not found.is_reliable
        assert (found.transition.argmax(0) == torch.arange(num_classes)).all()
    suspects = nb.find_suspects(probs, labels)
    assert torch.isfinite(suspects.score).all()
    assert (suspects.suggested != labels).all()


def out_of_fold(probs, labels, *, is_underfit):
    return OutOfFold(probs.log(), labels, torch.arange(len(labels)), is_underfit)


def test_networks_that_hardly_err_know_that_there_is_hardly_any_noise():
    """Though they were still learning: their mistakes pass for noise, and there are few."""
    true = drawn(500, [1.0, 1, 1])
    probs = predictions(true, 3, sharpness=12.0)
    found = estimated_noise(out_of_fold(probs, true, is_underfit=True))
    assert isinstance(found, EstimatedNoise)
    assert found.rate < 0.02
    assert found.interval[0] == 0
    assert found.interval[1] < 0.05
    assert "at most" in found.estimate.words


def test_networks_that_err_and_are_still_learning_know_nothing():
    true = drawn(500, [1.0, 1, 1])
    probs = predictions(true, 3, sharpness=1.0)
    found = estimated_noise(out_of_fold(probs, true, is_underfit=True))
    assert isinstance(found, UnknownNoise)
