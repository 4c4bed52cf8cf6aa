"""Noise from labels alone: known noise is estimated, and its limits are reported."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import noisebound as nb
from noisebound.estimation import ESTIMATION_METHODS, estimate_noise

CLASSES = 6


def noisy_problem(kind="symmetric", rate=0.3, n=6000, spread=0.0, seed=0):
    """Noisy labels, and what a model says that knows T, and the truth up to some confusion."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=generator)
    noisy = nb.corrupt(true, kind, rate, CLASSES, generator=generator)
    logits = 8.0 * torch.nn.functional.one_hot(true, CLASSES).double()
    logits += spread * torch.randn(n, CLASSES, generator=generator).double()
    return logits.softmax(1) @ noisy.transition.T, noisy, true


@pytest.mark.parametrize("method", ["agreement", "anchor", "confident"])
@pytest.mark.parametrize(
    ("kind", "rate"),
    [("symmetric", 0.0), ("symmetric", 0.3), ("symmetric", 0.6), ("pairwise", 0.3)],
)
def test_known_noise_is_found_again(method, kind, rate):
    probs, noisy, _ = noisy_problem(kind, rate, n=10_000, spread=0.5)
    found = estimate_noise(probs, noisy.labels, method)
    assert found.noise_rate == pytest.approx(noisy.noise_rate, abs=0.03)
    torch.testing.assert_close(found.transition, noisy.transition, atol=0.06, rtol=0)
    torch.testing.assert_close(found.transition.sum(0), torch.ones(CLASSES).double())
    torch.testing.assert_close(found.class_prior.sum(), torch.tensor(1.0).double())
    low, high = found.interval
    assert 0 <= low <= found.noise_rate <= high <= 1


class TestClassesThatDiffer:
    """Chance is taken out of the counts, and structure is not."""

    transition = torch.full((10, 10), 0.02 / 9).double().fill_diagonal_(0.98)
    for flipping in range(5):
        transition[flipping, flipping] -= 0.4
        transition[flipping + 1, flipping] += 0.4

    def found(self, n=20_000, classes=10, matrix=None):
        matrix = self.transition if matrix is None else matrix
        generator = torch.Generator().manual_seed(0)
        true = torch.randint(classes, (n,), generator=generator)
        noisy = nb.corrupt(true, "transition", transition=matrix, generator=generator)
        return estimate_noise(matrix[:, true].T, noisy.labels).transition

    def test_some_flip_and_some_do_not(self):
        torch.testing.assert_close(self.found(), self.transition, atol=0.06, rtol=0)

    def test_a_class_with_hardly_an_example_spoils_nothing(self):
        rates = (0.02, 0.1, 0.3, 0.45)
        true = torch.arange(4).repeat(2000)
        true = torch.cat([true, torch.tensor([4, 4])])
        matrix = torch.eye(5).double()
        for k, rate in enumerate(rates):
            matrix[k, k], matrix[(k + 1) % 4, k] = 1 - rate, rate
        generator = torch.Generator().manual_seed(0)
        noisy = nb.corrupt(true, "transition", transition=matrix, generator=generator)
        found = estimate_noise(matrix[:, true].T, noisy.labels).transition
        torch.testing.assert_close(
            1 - found.diagonal()[:4], torch.tensor(rates).double(), atol=0.05, rtol=0
        )

    def test_even_noise_comes_out_more_even_than_it_was_counted(self):
        even = torch.full((10, 10), 0.4 / 9).double().fill_diagonal_(0.6)
        found = self.found(n=5000, matrix=even)
        raw_deviation = (0.04 * 0.96 / 100) ** 0.5  # of shares in a hundred sure examples a class
        off_diagonal = found[~torch.eye(10, dtype=torch.bool)]
        assert off_diagonal.std() < 0.7 * raw_deviation


def test_agreement_is_hardly_misled_by_wrong_predictions():
    """Predictions of a model that is wrong in one of eight examples."""
    probs, noisy, true = noisy_problem(rate=0.3, n=20_000, spread=3.2)
    assert 0.08 < (probs.argmax(1) != true).double().mean() < 0.2
    errors = {
        method: abs(estimate_noise(probs, noisy.labels, method).noise_rate - noisy.noise_rate)
        for method in ("agreement", "confident")
    }
    assert errors["agreement"] < 0.02
    assert errors["agreement"] == min(errors.values())


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    held = 0
    for seed in range(60):
        probs, noisy, _ = noisy_problem(rate=0.3, n=1500, seed=seed)
        low, high = estimate_noise(probs, noisy.labels).interval
        held += low <= 0.3 <= high
    assert held >= 52  # 57 expected


def test_more_examples_make_it_narrower():
    """If a second model agrees with the first, only chance is left."""
    widths = []
    for n in (600, 20_000):
        probs, noisy, _ = noisy_problem(n=n)
        low, high = estimate_noise(probs, noisy.labels, second_probs=probs).interval
        widths.append(high - low)
    assert widths[1] < widths[0] / 2


class TestUnidentifiableNoise:
    def test_a_model_that_has_learnt_nothing(self):
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(CLASSES, (2000,), generator=generator)
        probs = torch.rand(2000, CLASSES, generator=generator).double()
        found = estimate_noise(probs / probs.sum(1, keepdim=True), labels)
        assert not found.is_reliable
        assert "nothing to do with the labels" in found.diagnostics.rejection

    def test_labels_that_say_nothing(self):
        probs, noisy, _ = noisy_problem(rate=0.82, n=20_000)
        words = " ".join(estimate_noise(probs, noisy.labels).diagnostics.warnings)
        assert "close to 0.83, at which labels carry no information" in words

    def test_a_class_that_is_never_predicted(self):
        probs, noisy, _ = noisy_problem()
        probs[:, 0] = 0
        found = estimate_noise(probs / probs.sum(1, keepdim=True), noisy.labels)
        assert "1 of 6 classes are never predicted" in found.diagnostics.warnings
        assert found.transition[0, 0] == 1

    def test_nothing_speaks_against_a_good_one(self):
        probs, noisy, _ = noisy_problem()
        assert estimate_noise(probs, noisy.labels).is_reliable


def test_arrays_and_single_precision_will_do():
    probs, noisy, _ = noisy_problem()
    from_arrays = estimate_noise(probs.float().numpy(), noisy.labels.numpy().astype(np.int32))
    assert from_arrays.noise_rate == estimate_noise(probs, noisy.labels).noise_rate


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "magic"}, ValueError, "method must be one of agreement, anchor, confident"),
        (
            {"labels": torch.zeros(5, dtype=torch.long)},
            ValueError,
            "`labels` must be one per example",
        ),
        ({"labels": torch.zeros(100)}, TypeError, "`labels` must be whole numbers"),
        ({"labels": ["cat", "dog"] * 50}, TypeError, "`labels` must be whole numbers"),
        ({"labels": torch.full((100,), 9)}, ValueError, r"`labels` must lie in 0 … 5, got 9 … 9"),
        ({"probs": torch.ones(100, 6)}, ValueError, "`probs` must sum to one"),
        (
            {"probs": torch.ones(100, 1)},
            ValueError,
            "`probs` must have shape",
        ),
    ],
)
def test_bad_input(change, error, message):
    given = {
        "probs": torch.full((100, CLASSES), 1 / CLASSES),
        "labels": torch.zeros(100, dtype=torch.long),
    }
    with pytest.raises(error, match=message):
        estimate_noise(**(given | change))


def test_frames_series_and_unsigned_numbers_are_arrays():
    probs, noisy, _ = noisy_problem()
    expected = estimate_noise(probs, noisy.labels).noise_rate
    array, labels = probs.numpy(), noisy.labels.numpy()
    shuffled = np.random.default_rng(0).permutation(len(labels))
    for given in (
        (pd.DataFrame(array, index=shuffled), pd.Series(labels, index=shuffled)),
        (pl.DataFrame(array), pl.Series(labels)),
        (array, labels.astype(np.uint16)),
        (array.tolist(), labels.astype(np.uint64)),
    ):
        assert estimate_noise(*given).noise_rate == pytest.approx(expected)


def test_too_few():
    with pytest.raises(ValueError, match="at least 20 examples are needed, got 3"):
        estimate_noise(torch.full((3, 2), 0.5), torch.tensor([0, 1, 0]))


def test_ours_is_the_default():
    probs, noisy, _ = noisy_problem()
    assert ESTIMATION_METHODS[0] == estimate_noise(probs, noisy.labels).diagnostics.method


def test_where_no_wrong_label_is_seen_there_may_be_some():
    """The interval reaches to about one in as many labels as were looked at."""
    labels = torch.arange(4).repeat(100)
    probs = torch.eye(4, dtype=torch.float64)[labels]
    highest = {
        method: estimate_noise(probs, labels, method).interval[1]
        for method in ("agreement", "anchor")
    }
    assert highest["anchor"] == pytest.approx(math.log(20) / 400)
    assert 1 / 400 < highest["agreement"] < 2 * highest["anchor"]


def test_single_precision_is_not_doubled():
    """The estimate of many examples and classes takes less memory than half of its input."""
    script = """
import resource, sys, torch, noisebound as nb
n, c = 100_000, 200
probs = torch.full((n, c), 0.2 / (c - 1))
labels = torch.arange(n) % c
probs[torch.arange(n), labels] = 0.8
nb.estimate_noise(probs[:1000], labels[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
nb.estimate_noise(probs, labels)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / (4 * n * c))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.5
