"""The noise rates that labels allow, and how checked labels settle the rate."""

import pytest
import torch

import noisebound as nb
from noisebound.errors import InvalidTypeError, InvalidValueError, NoiseboundError
from noisebound.estimation import estimate_noise
from noisebound.estimation.transitions import with_rate
from noisebound.estimation.trusted import (
    audited_rate,
    calibrated,
    clopper_pearson,
    labels_to_check,
)

CLASSES = 4


def problem(n=4000, rate=0.3, error=0.0, seed=0):
    """Noisy labels, and the predictions of two models that err at a rate, each in its own way."""
    g = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=g)
    noisy = nb.corrupt(true, "symmetric", rate, CLASSES, generator=g)
    models = []
    for _ in range(2):
        said = nb.corrupt(true, "symmetric", error, CLASSES, generator=g).labels
        probs = torch.full((n, CLASSES), 0.1).scatter_(1, said[:, None], 0.7).double()
        models.append(probs)
    return noisy.labels, true, models


@pytest.mark.parametrize("error", [0.0, 0.2, 0.4])
def test_two_models_that_err_bracket_the_truth(error):
    """They are as sure of their errors as of the rest, and only their differing gives them away."""
    labels, true, (first, second) = problem(error=error)
    rate = (labels != true).double().mean().item()
    low, high = estimate_noise(first, labels, second_probs=second).interval
    assert low <= rate <= high
    found = estimate_noise(first, labels, second_probs=second).noise_rate
    alone = estimate_noise(first, labels).noise_rate
    assert abs(found - rate) <= abs(alone - rate) + 0.01
    assert abs(found - rate) < 0.12


def test_errors_that_models_share_among_hard_examples_do_not_raise_the_lower_end():
    """Where predictions are surest they are right; of the others two models know nothing."""
    g = torch.Generator().manual_seed(0)
    n = 3000
    true = torch.randint(CLASSES, (n,), generator=g)
    labels = nb.corrupt(true, "symmetric", 0.4, CLASSES, generator=g).labels
    rate = (labels != true).double().mean().item()
    models = []
    for _ in range(2):
        is_hard = torch.arange(n) >= n // 2
        guess = torch.randint(CLASSES, (n,), generator=g)
        said = torch.where(is_hard, guess, true)
        sureness = torch.where(is_hard, 0.4, 0.6)[:, None]
        others = (1 - sureness) / (CLASSES - 1)
        models.append(others.expand(n, CLASSES).scatter(1, said[:, None], sureness).double())
    found = estimate_noise(models[0], labels, second_probs=models[1])
    low, high = found.interval
    assert low <= rate <= high
    assert abs(found.noise_rate - rate) < 0.04


def test_the_point_lies_midway_between_the_surest_examples_and_all():
    """No one errs where the model is surest; a quarter of the labels of all others differ."""
    n = 2000
    labels = torch.zeros(n, dtype=torch.int64)
    labels[n // 2 :: 4] = 1
    labels[: n // 4] = torch.arange(n // 4) % 2
    predicted = torch.where(torch.arange(n) < n // 4, labels, 0)
    sureness = torch.where(torch.arange(n) < n // 2, 0.9, 0.8)[:, None].double()
    probs = (1 - sureness).expand(n, 2).scatter(1, predicted[:, None], sureness)
    assert estimate_noise(probs, labels).noise_rate == pytest.approx(0, abs=0.005)
    found = estimate_noise(probs, labels, second_probs=probs).noise_rate
    assert found == pytest.approx(0.125 / 2, abs=0.005)


def test_a_model_that_guesses_tells_nothing():
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (2000,), generator=g)
    probs = torch.rand(2000, CLASSES, generator=g).double().softmax(1)
    found = estimate_noise(probs, labels)
    assert found.interval[0] < 0.02
    assert found.interval[1] > 0.7
    assert not found.is_reliable


def test_the_words_promise_no_more_than_is_known():
    labels, _, (first, second) = problem()
    found = estimate_noise(first, labels, second_probs=second)
    assert "unless mistakes can be predicted from the inputs" in found.words
    assert "Only checked labels can settle it" in found.words
    assert "if mistakes cannot be predicted from the inputs" in found.summary
    assert 500 < found.labels_to_check < 1000  # (1.96 · 0.46 / 0.03)², less for so few labels


@pytest.mark.parametrize("rate", [0.1, 0.45, 0.7])
def test_no_matrix_makes_another_class_likelier_than_the_true_one(rate):
    labels, _, (first, second) = problem(rate=0.7, error=0.3)
    found = estimate_noise(first, labels, second_probs=second).transition
    assert (found.argmax(0) == torch.arange(CLASSES)).all()
    pairwise = torch.eye(2).double() * 0.3 + 0.7 * torch.eye(2).double().flip(0)
    fixed = with_rate(pairwise, torch.tensor([0.5, 0.5]).double(), rate)
    torch.testing.assert_close(fixed.sum(0), torch.ones(2).double())
    assert (fixed.diagonal() >= 0.5 - 1e-12).all()
    assert fixed[0, 0].item() == pytest.approx(max(1 - rate, 0.5))


class TestTrusted:
    def sample(self, seed, n=4000, count=100):
        g = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=g)[:count]

    def test_they_settle_noise_that_nobody_can_see(self):
        """All labels of a class are wrong in the same way, predictably from the inputs."""
        _labels, true, _ = problem(rate=0.0)
        predictable = torch.where(true == 0, 1, true)
        probs = torch.full((4000, CLASSES), 0.01).scatter_(1, predictable[:, None], 0.97).double()
        rate = (predictable != true).double().mean().item()
        at = self.sample(0)
        blind = estimate_noise(probs, predictable)
        audited = estimate_noise(probs, predictable, trusted=(at, true[at]))
        assert blind.interval[1] < 0.05 < rate
        assert audited.interval[0] < rate < audited.interval[1]
        assert audited.transition[1, 0] > 0.5
        assert "100 labels that a person has checked" in audited.words
        assert "by 100 checked labels" in audited.summary
        assert "predicted" not in audited.summary

    def test_checked_labels_ask_nothing_of_a_model(self):
        """It predicts all classes alike, and a quarter of the labels are wrong."""
        labels, true, _ = problem(rate=0.25)
        probs = torch.full((4000, CLASSES), 1 / CLASSES).double()
        at = self.sample(0)
        assert not estimate_noise(probs, labels).is_reliable
        audited = estimate_noise(probs, labels, trusted=(at, true[at]))
        assert audited.diagnostics.rejection is None
        assert audited.interval[0] < 0.25 < audited.interval[1]

    @pytest.mark.parametrize("seed", range(4))
    def test_labels_that_are_all_right_do_not_exclude_that_none_is_wrong(self, seed):
        """Suspicions differ, so that the estimate is a little above zero."""
        g = torch.Generator().manual_seed(seed)
        _labels, true, _ = problem(rate=0.0)
        logits = torch.randn(4000, CLASSES, generator=g) + 4 * torch.eye(CLASSES)[true]
        at = self.sample(seed)
        found = estimate_noise(logits.double().softmax(1), true, trusted=(at, true[at]))
        assert found.interval[0] == 0
        assert found.interval[1] < 0.06

    def test_the_interval_holds_the_truth_as_often_as_it_says(self):
        labels, true, (first, _) = problem(error=0.1)
        rate = (labels != true).double().mean().item()
        held, errors, widths = 0, [], []
        for seed in range(200):
            at = self.sample(seed)
            found = estimate_noise(first, labels, trusted=(at, true[at]))
            held += found.interval[0] <= rate <= found.interval[1]
            errors.append(abs(found.noise_rate - rate))
            widths.append(found.interval[1] - found.interval[0])
        assert held >= 180  # of 190 expected; 95 % less three standard errors
        exact = clopper_pearson(30, 100)
        assert sum(widths) / 200 < 0.8 * (exact[1] - exact[0])  # predictions sharpen it
        assert sum(errors) / 200 < 0.03

    def test_useless_predictions_do_not_hurt(self):
        labels, true, _ = problem()
        g = torch.Generator().manual_seed(1)
        probs = torch.rand(4000, CLASSES, generator=g).double().softmax(1)
        at = self.sample(3)
        found = estimate_noise(probs, labels, trusted=(at, true[at]))
        checked = (labels[at] != true[at]).double().mean().item()
        assert found.noise_rate == pytest.approx(checked, abs=0.02)

    def test_all_right_so_far(self):
        quiet = torch.zeros(50, dtype=torch.bool)
        found = audited_rate(quiet, torch.zeros(50).double(), torch.zeros(1000).double())
        assert found.rate == 0
        assert found.interval == clopper_pearson(0, 50)

    @pytest.mark.parametrize("shift", [-6.0, 0.0, 6.0])
    @pytest.mark.parametrize("slope", [0.2, 1.0, 4.0])
    def test_the_curve_fits_however_far_the_suspicions_are_off(self, shift, slope):
        """Checked labels that are wrong as often as the curve says, weighted by that often."""
        audited = torch.linspace(-3, 3, 400).double()
        actual = audited.sigmoid()
        both = torch.cat([torch.ones(400), torch.zeros(400)]).double()
        log_odds = slope * audited + shift
        curve = calibrated(both, log_odds.repeat(2), torch.cat([actual, 1 - actual]) / 400)
        torch.testing.assert_close(curve(log_odds), actual, atol=0.01, rtol=0)

    @pytest.mark.parametrize(
        ("trusted", "complaint"),
        [
            (([0, 1], [0, 1]), "at least 10"),
            ((list(range(10)), [0] * 9), "as many positions"),
            (([0] * 10, [0] * 10), "distinct"),
            ((list(range(10)), [9] * 10), "0 … 3"),
            ((list(range(3995, 4005)), [0] * 10), "0 … 3999"),
            (([0.5] * 10, [0] * 10), "whole numbers"),
        ],
    )
    def test_mismatched_arguments_are_refused(self, trusted, complaint):
        labels, _, (first, _) = problem()
        with pytest.raises(NoiseboundError, match=complaint):
            estimate_noise(first, labels, trusted=trusted)


def test_second_predictions_that_do_not_fit_are_refused():
    labels, _, (first, second) = problem()
    with pytest.raises(InvalidValueError, match="shape of `probs`"):
        estimate_noise(first, labels, second_probs=second[:-1])
    with pytest.raises(InvalidTypeError, match="anchor"):
        estimate_noise(first, labels, "anchor", second_probs=second)


def test_how_many_labels_to_check():
    assert labels_to_check(0.5, 10**9) == 1068  # the survey taker's number
    assert labels_to_check(0.5, 500) < 500


@pytest.mark.parametrize("count", [20, 100, 190])
def test_how_many_labels_to_check_does_not_fall_with_those_checked_already(count):
    wrong = torch.arange(count) % 2 == 0
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    suspicion = torch.linspace(0.49, 0.51, 200).double()[order]
    found = audited_rate(wrong, suspicion[:count], suspicion)
    assert labels_to_check(found.rate, 200) == pytest.approx(169, abs=4)


def test_noise_of_unknown_structure_is_spread_evenly():
    fixed = with_rate(torch.eye(3).double(), torch.full((3,), 1 / 3).double(), 0.3)
    torch.testing.assert_close(fixed.diagonal(), torch.full((3,), 0.7).double())
    assert fixed[1, 0].item() == pytest.approx(0.15)
