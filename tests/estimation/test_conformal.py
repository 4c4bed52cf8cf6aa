"""Prediction sets cover the true class, whatever the noise of the labels they are calibrated on."""

import pytest
import torch

import noisebound as nb
from noisebound.estimation import conformal_threshold, prediction_sets
from noisebound.estimation.truth import noisy_truth


def drawn(n, classes=5, seed=0):
    """Probabilities of a calibrated model, and true classes that were drawn from them."""
    g = torch.Generator().manual_seed(seed)
    probs = (2.5 * torch.randn(n, classes, generator=g).double()).softmax(1)
    return probs, torch.multinomial(probs, 1, generator=g).squeeze(1)


def covered(threshold, seed):
    probs, true = drawn(20_000, seed=seed)
    sets = prediction_sets(probs, threshold)
    return sets.gather(1, true[:, None]).double().mean().item(), sets.sum(1).double().mean().item()


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_the_coverage_is_that_of_true_labels(kind, coverage):
    probs, true = drawn(20_000, seed=1)
    g = torch.Generator().manual_seed(2)
    noisy = nb.corrupt(true, kind, 0.3, 5, generator=g)
    corrected = conformal_threshold(probs, noisy.labels, noisy.transition, coverage)
    found, size = covered(corrected, seed=3)
    assert found == pytest.approx(coverage, abs=0.015)
    naive, larger = covered(conformal_threshold(probs, noisy.labels, 0.0, coverage), seed=3)
    assert naive > found + 0.03
    assert larger > size


def test_clean_labels_give_the_usual_quantile():
    probs, true = drawn(99, seed=4)
    threshold = conformal_threshold(probs, true, noise=0.0, coverage=0.9)
    of_true = probs.gather(1, true[:, None]).squeeze(1)
    assert threshold == of_true.sort(descending=True).values[89].item()  # (99 + 1) · 0.9 = 90


def test_equal_probabilities_enter_together():
    probs = torch.full((50, 4), 0.25).double()
    threshold = conformal_threshold(probs, torch.arange(50) % 4, noise=0.0, coverage=0.5)
    assert prediction_sets(probs, threshold).all()


def test_labels_without_information_leave_all_classes():
    probs, true = drawn(100)
    assert conformal_threshold(probs, true, noise=0.8) == 0.0


def test_no_set_is_empty():
    probs, _ = drawn(50)
    assert (prediction_sets(probs, 1.0) == noisy_truth(probs.argmax(1), 5).bool()).all()


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, 2])
def test_a_coverage_outside_its_interval_is_refused(coverage):
    with pytest.raises(ValueError, match=r"`coverage` must lie in \(0, 1\)"):
        conformal_threshold(*drawn(100), noise=0.1, coverage=coverage)


def test_too_few_labels_are_refused():
    with pytest.raises(ValueError, match="needs at least 99 labels to calibrate, got 50"):
        conformal_threshold(*drawn(50), noise=0.1, coverage=0.99)


def test_noise_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="one column for each of 3 classes of the noise, got 5"):
        conformal_threshold(*drawn(50), noise=torch.eye(3))
