"""Scores on true labels: exact where the noise is known, and their intervals hold."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn import metrics

import noisebound as nb
from noisebound.data.votes import majority_vote
from noisebound.estimation import EstimatedNoise, NoiseEstimate, OutOfFold
from noisebound.estimation.trusted import Trusted
from noisebound.estimation.truth import (
    accuracy_of,
    checked_truth,
    macro_f1_of,
    noisy_truth,
    recall_of,
)


def drawn(n=4000, classes=4, rate=0.3, mistakes=0.2, kind="symmetric", seed=0):
    """True labels, predictions and noisy labels, wrong independently of each other."""
    g = torch.Generator().manual_seed(seed)
    true = torch.randint(classes, (n,), generator=g)
    predicted = nb.corrupt(true, "symmetric", mistakes, classes, generator=g).labels
    return true, predicted, nb.corrupt(true, kind, rate, classes, generator=g)


def holds(interval, value):
    low, high = interval
    return low <= value <= high


class TestMatricesOfTheTruth:
    @given(seed=st.integers(0, 1000), classes=st.integers(2, 6))
    @settings(max_examples=20, deadline=None)
    def test_known_truth_gives_the_usual_scores(self, seed, classes):
        true, predicted, _ = drawn(200, classes, seed=seed)
        truth, names = noisy_truth(true, classes), range(classes)
        assert accuracy_of(predicted, truth).values.item() == pytest.approx(
            metrics.accuracy_score(true, predicted)
        )
        assert macro_f1_of(predicted, truth).values.item() == pytest.approx(
            metrics.f1_score(true, predicted, average="macro", labels=names)
        )
        recall = metrics.recall_score(true, predicted, average=None, labels=names)
        np.testing.assert_allclose(recall_of(predicted, truth).values, recall)

    def test_standard_errors_are_those_of_repeated_draws(self):
        for function in (accuracy_of, macro_f1_of, recall_of):
            found = []
            for seed in range(200):
                true, predicted, _ = drawn(500, 3, seed=seed)
                found.append(function(predicted, noisy_truth(true, 3)))
            values, errors = (torch.stack(each) for each in zip(*found, strict=True))
            torch.testing.assert_close(errors.mean(0), values.std(0), rtol=0.2, atol=0)

    def test_all_labels_checked_is_the_truth_itself(self):
        true, _, noisy = drawn(100)
        guess = noisy_truth(noisy.labels, 4)
        whole = checked_truth(guess, Trusted(torch.arange(100), true))
        torch.testing.assert_close(whole, noisy_truth(true, 4))


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
def test_a_known_matrix_gives_the_true_scores(kind):
    held = 0
    for seed in range(40):
        _, predicted, noisy = drawn(1000, kind=kind, seed=seed)
        found = nb.clean_score(predicted, noisy.labels, noise=noisy.transition)
        held += holds(found.interval, 0.8)
        assert found.accuracy == pytest.approx(0.8, abs=0.12)
    assert held >= 36


def test_an_estimate_says_what_the_labels_hide():
    true, predicted, noisy = drawn(rate=0.4)
    probs = 0.8 * noisy_truth(predicted, 4) + 0.05
    estimate = nb.estimate_noise(probs, noisy.labels)
    actual = (predicted == true).double().mean().item()
    for found in (
        nb.clean_score(probs, noisy.labels),
        nb.clean_score(probs, noisy.labels, noise=estimate),
    ):
        assert found.noisy_accuracy == pytest.approx(0.5, abs=0.03)
        assert holds(found.interval, actual)
        assert found.noisy_accuracy < found.accuracy
        assert "if mistakes cannot be predicted from the inputs" in found.summary


def test_a_rate_leaves_room_for_noise_on_hard_examples():
    """A label is wrong more often where the model is wrong too."""
    true, predicted, _ = drawn(20_000, classes=2)
    g = torch.Generator().manual_seed(1)
    chance = torch.where(predicted == true, 0.2, 0.3)
    labels = torch.where(torch.rand(20_000, generator=g) < chance, 1 - true, true)
    rate = (labels != true).double().mean().item()
    found = nb.clean_score(predicted, labels, noise=rate)
    assert holds(found.interval, (predicted == true).double().mean().item())
    as_matrix = nb.clean_score(predicted, labels, noise=[[1 - rate, rate], [rate, 1 - rate]])
    assert as_matrix.interval[0] > found.interval[0]


def test_no_noise_is_no_correction():
    true, predicted, _ = drawn(500)
    found = nb.clean_score(predicted, true, noise=0.0)
    assert found.accuracy == pytest.approx(found.noisy_accuracy)
    assert holds(found.interval, found.accuracy)


def test_checked_labels_hold_where_labels_repeat_the_mistakes_of_the_model():
    held, widths = 0, []
    for seed in range(40):
        true, predicted, _ = drawn(2000, seed=seed)
        labels = torch.where(torch.arange(2000) % 3 > 0, predicted, true)
        at = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))[:100]
        found = nb.clean_score(predicted, labels, trusted=(at, true[at]))
        held += holds(found.interval, 0.8)
        widths.append(found.interval[1] - found.interval[0])
        assert found.condition == "by 100 checked labels"
    assert held >= 36
    assert np.mean(widths) < 0.18


def test_all_labels_checked_and_right_still_leave_a_sampling_error():
    """The interval is for the population, not for these examples."""
    true = torch.arange(40) % 3
    sure = torch.linspace(0.5, 0.99, 40).double()[:, None]
    probs = sure * noisy_truth(true, 3) + (1 - sure) / 2 * (1 - noisy_truth(true, 3))
    found = nb.clean_score(probs, true, noise=0.1, trusted=(torch.arange(40), true))
    assert found.interval[0] < 0.97
    assert found.interval[1] == 1.0


def test_two_models_are_compared_on_the_same_labels():
    true, better, noisy = drawn(mistakes=0.1)
    g = torch.Generator().manual_seed(1)
    worse = nb.corrupt(better, "symmetric", 0.1, 4, generator=g).labels
    found = nb.clean_score(better, noisy.labels, noise=noisy.transition, other=worse)
    actual = ((better == true).double() - (worse == true).double()).mean().item()
    assert holds(found.difference.interval, actual)
    assert found.difference.interval[0] > 0
    apart = found.interval[1] - found.interval[0]
    assert found.difference.interval[1] - found.difference.interval[0] < apart


@pytest.mark.parametrize("noise", [0.75, 0.9, [[0.5, 0.5], [0.5, 0.5]]])
@pytest.mark.filterwarnings("ignore::noisebound.NoiseRateWarning")
def test_labels_without_information_leave_everything_open(noise):
    classes = 2 if isinstance(noise, list) else 4
    true, predicted, _ = drawn(200, classes)
    found = nb.clean_score(predicted, true, noise=noise)
    assert found.interval == (0.0, 1.0)
    assert "carry no information" in found.warnings[0]


def test_memorized_labels_are_noticed():
    _, _, noisy = drawn()
    assert (
        "repeat wrong labels" in nb.clean_score(noisy.labels, noisy.labels, noise=0.3).warnings[0]
    )


def test_a_class_without_examples_has_no_recall():
    true, predicted, _ = drawn(300, 3)
    probs = torch.cat([noisy_truth(predicted, 3), torch.zeros(300, 1)], 1)
    found = nb.clean_score(probs, true[:, None], noise=0.0)
    assert found.recall[3] is None
    assert not math.isnan(found.macro_f1.value)


BAD = [
    ({"labels": torch.arange(30) % 4}, "`labels` must lie in 0 … 2"),
    ({"labels": torch.zeros(29, dtype=torch.long)}, "must be one per example, 30; got 29"),
    ({"predictions": torch.full((30,), 3)}, "`predictions` must lie in 0 … 2"),
    ({"predictions": torch.rand(30, 4).softmax(1)}, "one column for each of 3 classes, got 4"),
    ({"other": torch.zeros(7, dtype=torch.long)}, "one prediction per example, 30; got 7"),
    ({"noise": -0.1}, r"must lie in \[0, 1\]"),
    ({"noise": None}, "pass `noise`, or `trusted`"),
    ({"trusted": ([0], [1])}, "at least 10"),
    ({"noise": nb.estimation.UnknownNoise(3, "too few examples")}, "unknown .too few examples"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused(change, message):
    places = torch.arange(30) % 3
    usual = {"predictions": places, "labels": places, "noise": torch.eye(3).double()}
    with pytest.raises((ValueError, TypeError), match=message):
        nb.clean_score(**(usual | change))


def test_an_audited_estimate_keeps_its_whole_interval():
    true, predicted, noisy = drawn()
    probs = 0.8 * noisy_truth(predicted, 4) + 0.05
    estimate = nb.estimate_noise(probs, noisy.labels, trusted=(torch.arange(50), true[:50]))
    assert isinstance(estimate, NoiseEstimate)
    audited = nb.clean_score(predicted, noisy.labels, noise=estimate)
    assert audited.interval[1] == 1.0
    assert holds(audited.interval, 0.8)


def test_the_noise_of_a_run_is_that_of_its_labels():
    """With several labels per example these are majority votes, of which fewer are wrong."""
    true = torch.arange(4).repeat(200)
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    votes = torch.stack(
        [nb.corrupt(true, "symmetric", 0.3, 4, generator=each).labels for each in generators], dim=1
    )
    labels = majority_vote(votes, 4, are_named=False)
    probs = 0.4 * torch.nn.functional.one_hot(true, 4) + 0.15
    noise = EstimatedNoise.of(OutOfFold(probs.log(), labels, torch.arange(800), votes=votes))
    assert noise.of_labels.noise_rate < noise.estimate.noise_rate
    right = torch.where(torch.arange(800) % 10 > 0, true, (true + 1) % 4)
    of_run, of_labels = (
        nb.clean_score(right, labels, noise=each) for each in (noise, noise.of_labels)
    )
    assert of_run == of_labels


def test_columns_of_data_frames_are_labels():
    """Whatever their index, such as after a random split."""
    labels = pd.Series([0, 1, 2] * 40, index=range(500, 620))
    found = nb.clean_score(labels, labels, noise=0.0)
    assert found.noisy_accuracy == 1.0
