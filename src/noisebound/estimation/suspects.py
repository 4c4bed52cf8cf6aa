"""Suspects: labels that are probably wrong, with a probability and a suggested label."""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.bounds import symmetric_columns
from noisebound.checks import ArrayLike, as_float64, check_transition
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.estimate import NoiseEstimate, estimate_noise
from noisebound.estimation.floor import LEAST_PROBABILITY, calibrated_by, random_sample
from noisebound.estimation.noise import UnknownNoiseWarning
from noisebound.estimation.predictions import (
    Labels,
    Matrix,
    Probs,
    are_informative,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.transitions import true_class_probabilities

_TRUSTED_SCORE = -20.0  # log-odds of one in 500 million
_NEARLY_CERTAIN = 0.999
_SURE = 4.6  # log-odds of 99 %; beyond them, a score grows with the logarithm of the evidence
_UNEXPLAINED = 0.02  # share of the examples whose label the transition matrix does not describe
_SUREST = 1e-3  # least distance of a probability from zero and one
_NEUTRAL = 1e-3  # factor that brings meaningless log-odds near zero
_TIE = 1e-6  # log-odds between labels that would otherwise be equally suspect
CLEAR = 2.0  # standard errors; by chance, a gain is larger in 1 case of 40
_MUCH_NEARER = 1 / 4
"""A matrix is also supported if it changes the predictions by this factor less than uniform noise
does: the predictions then already look like noise of this kind. Heuristic."""
_SEEN_AS_NOISE = 2 / 3
"""Among labels that differ from predictions, beyond the share among the surest examples, the part
that is assumed to be wrong. Chosen on the dev half of ``benchmarks/settings.py``."""

_MIXTURE_ROUNDS = 100  # these three are the settings of scikit-learn's GaussianMixture
_MIXTURE_TOLERANCE = 1e-3  # change of the mean log-likelihood
_LEAST_VARIANCE = 1e-6  # keeps the width positive if each distribution has a single value


def probability_text(probability: float) -> str:
    """Return a probability as text, never as certain: it comes from noisy labels.

    Example:
        >>> probability_text(0.123), probability_text(0.99999), probability_text(1e-6)
        ('12.3%', '>99.9%', '<0.1%')
    """
    if probability > _NEARLY_CERTAIN:
        return f">{_NEARLY_CERTAIN:.1%}"
    if probability < 1 - _NEARLY_CERTAIN:
        return f"<{1 - _NEARLY_CERTAIN:.1%}"
    return f"{probability:.1%}"


@dataclass(frozen=True, eq=False)
class Suspects:
    """The probability that each label is wrong.

    Args:
        score: the log-odds that the label is wrong
        suggested: the likeliest class other than the label; None for suspects by losses
    """

    score: Float64[Tensor, " n"]
    suggested: Labels | None

    @property
    def probability(self) -> Float64[Tensor, " n"]:
        """The probability that the label is wrong."""
        return self.score.sigmoid()

    @property
    def ranking(self) -> Int64[Tensor, " n"]:
        """The positions of the examples, the most suspect first."""
        return self.score.argsort(descending=True, stable=True)

    def neutral(self) -> "Suspects":
        """Return the same ranking, with all probabilities about one half."""
        return Suspects(_NEUTRAL * self.score, self.suggested)

    def without(self, is_trusted: Bool[Tensor, " n"]) -> "Suspects":
        """Return the same suspects, with trusted labels at the end of the ranking."""
        return Suspects(self.score.masked_fill(is_trusted, _TRUSTED_SCORE), self.suggested)


def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
) -> Suspects:
    """Find the labels that are probably wrong.

    With probabilities ``q`` of the true class, Bayes' rule gives the probability that the label
    ``y`` is right: ``T[y, y] q_y / Σ_k T[y, k] q_k``. By default the matrix ``T`` is estimated. It
    is used only if the labels support it, that is, if they are predicted better through this matrix
    but not through uniform noise. Otherwise labels are ranked by their predicted probability. If
    the predictions are unrelated to the labels, a warning is raised, and all probabilities are
    about one half.

    Args:
        probs_or_losses: class probabilities, one row per example, by a model that has not memorized
            the labels: out-of-fold, or from a bounded training. Or one loss per example, higher for
            wrong labels; no label is suggested then.
        labels: observed class indices
        transition: ``T[noisy, true]``; estimated by default
        corrected: True if the probabilities are those of the true class, as with a
            forward-corrected loss; False if they are those of the observed label

    Example:
        >>> probs = torch.tensor([[0.9, 0.1]] * 50 + [[0.1, 0.9]] * 50)
        >>> labels = torch.tensor([0] * 49 + [1] * 51)  # the 50th looks like class 0
        >>> suspects = find_suspects(probs, labels)
        >>> suspects.ranking[0].item(), suspects.suggested[49].item()
        (49, 0)
    """
    given = torch.as_tensor(probs_or_losses).detach().cpu()
    if given.ndim == 1:
        if transition is not None or corrected:
            raise InvalidTypeError(
                "transition and corrected apply to probabilities, and these are losses"
            )
        return Suspects(_log_odds_of_losses(as_float64(given), labels), None)
    probs = check_predictions(given)
    observed = check_labels(labels, probs, "probs")
    if transition is None and not corrected:
        found = suspects_by_evidence(probs.double(), observed)
        if not found.is_informed:
            warnings.warn(
                "no label can be called suspect: the predictions have nothing to do with the "
                "labels; train the model for more epochs, or on other features",
                UnknownNoiseWarning,
                stacklevel=2,
            )
        return found.suspects
    matrix = (
        estimate_noise(probs, observed).transition
        if transition is None
        else check_transition(transition).cpu()
    )
    if len(matrix) != probs.shape[1]:
        raise InvalidValueError(
            f"transition is of {len(matrix)} classes, probs are of {probs.shape[1]}"
        )
    by_rule = suspects_of if corrected else suspects_through
    return by_rule(probs.double(), observed, matrix)


class Evidence(NamedTuple):
    """Suspects by probabilities, and how well the labels support them."""

    suspects: Suspects
    is_supported: bool  # the labels support noise that is independent of difficulty
    is_informed: bool = True  # the predictions depend on the labels


def suspects_by_evidence(
    probs: Probs,
    labels: Labels,
    learned: Labels | None = None,
    estimate: NoiseEstimate | None = None,
) -> Evidence:
    """Return the suspects, using as much structure of the noise as the labels support.

    Args:
        probs: out-of-fold probabilities of the observed label
        labels: the labels to rate
        learned: the labels that the model was trained on, if some were corrected since
        estimate: the noise; by default estimated from these probabilities
    """
    learned = labels if learned is None else learned
    estimate = estimate or estimate_noise(probs, learned)
    found = _by_supported_noise(probs, labels, learned, estimate)
    if are_informative(probs, learned):
        return found
    # For a model at chance, the ranking may still help; the probabilities do not.
    return Evidence(found.suspects.neutral(), is_supported=False, is_informed=False)


def _by_supported_noise(
    probs: Probs, labels: Labels, learned: Labels, estimate: NoiseEstimate
) -> Evidence:
    num_classes = probs.shape[1]
    rate = _below_chance(estimate.noise_rate, num_classes)
    calibrated = calibrated_by(probs, learned)
    even = symmetric_columns(torch.tensor(rate, dtype=torch.float64), num_classes)
    even_gain, even_distance = _fit_of_matrix(calibrated, learned, even)
    differing = (probs.argmax(1) != labels).double().mean().item()
    differing = min(differing, estimate.interval[1])  # the others are errors of the model
    # A matrix that explains few of the labels that differ would call the others right.
    if even_gain < -CLEAR and rate > differing / 2:
        matrix = estimate.transition
        gain, distance = _fit_of_matrix(calibrated, learned, matrix)
        if gain > CLEAR or distance < _MUCH_NEARER * even_distance:
            return Evidence(suspects_through(calibrated, labels, matrix), True)
    rate = min(rate, differing)
    share = rate + _SEEN_AS_NOISE * (differing - rate)
    return Evidence(_least_probable(probs, calibrated, labels, share), even_gain > CLEAR)


def _least_probable(probs: Probs, calibrated: Probs, labels: Labels, share: float) -> Suspects:
    """Return suspects ranked by their labels' probabilities, with a share of them above one half.

    The log-odds are those of uniform noise of this rate, shifted to the share and assigned in the
    order of the original probabilities.
    """
    rate = _below_chance(share, probs.shape[1])
    other = rate / (probs.shape[1] - 1)
    true = ((of_label(calibrated, labels) - other) / (1 - rate - other)).clamp(_SUREST, 1 - _SUREST)
    score = (other * (1 - true)).clamp(min=LEAST_PROBABILITY).log() - ((1 - rate) * true).log()
    score = score.sort(descending=True).values
    count = round(share * len(labels))
    if 0 < count < len(labels):
        score = score - (score[count - 1] + score[count]) / 2
    # Break ties among the labels with the highest and lowest possible odds.
    places = torch.arange(len(score), dtype=torch.float64)
    score = score + _TIE * (count - 0.5 - places) / len(score)
    ordered = in_order_of(of_label(probs, labels), score)
    suggested = probs.scatter(1, labels[:, None], -1).argmax(1)
    return Suspects(_limited(ordered), suggested)


def _below_chance(rate: float, num_classes: int) -> float:
    """Return the rate, limited to below the rate at which labels carry no information."""
    return min(rate, 0.95 * (num_classes - 1) / num_classes)


def _fit_of_matrix(probs: Probs, labels: Labels, transition: Matrix) -> tuple[float, float]:
    """Return how well predictions fit a matrix, by a sample of the labels.

    The first number is the gain in the labels' log-likelihood through the matrix, in standard
    errors; the second is the change of the predictions, in total variation.

    The matrix cannot produce every prediction; others are replaced by the nearest possible one.
    This removes errors from the predictions if the matrix is right, and adds some if not.
    """
    sample = random_sample(len(labels))
    probs, labels = probs[sample], labels[sample]
    seen = true_class_probabilities(probs, transition) @ transition.mT
    gain = of_label(seen, labels).clamp(min=1e-6).log()
    gain -= of_label(probs, labels).clamp(min=1e-6).log()
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    distance = float((seen - probs).abs().sum(1).mean()) / 2
    return float(gain.mean()) / max(error, LEAST_PROBABILITY), distance


def suspects_of(probs: Probs, labels: Labels, transition: Matrix) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the true class."""
    num_classes = len(transition)
    others = 1 - torch.eye(num_classes, dtype=torch.float64)
    softened = (1 - _UNEXPLAINED) * transition + _UNEXPLAINED / (num_classes - 1) * others
    likelihood = (softened / softened.sum(0))[labels] * probs  # [example, true class]
    right = of_label(likelihood, labels)
    wrong = likelihood.scatter(1, labels[:, None], 0)
    score = wrong.sum(1).clamp(min=1e-300).log() - right.clamp(min=1e-300).log()
    return Suspects(_limited(score), wrong.argmax(1))


def suspects_through(probs: Probs, labels: Labels, transition: Matrix) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the observed label.

    Inversion gives probability zero to each class that the matrix rules out, which would make many
    labels equally suspect. So a small part of the observed label's probabilities is mixed in.
    """
    described = true_class_probabilities(probs, transition)
    return suspects_of(torch.lerp(described, probs, _UNEXPLAINED), labels, transition)


def _limited(score: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Compress log-odds beyond 99 %; their order stays, and none becomes certain."""
    beyond = (score.abs() - _SURE).clamp(min=0)
    return score.clamp(-_SURE, _SURE) + score.sign() * beyond.log1p()


def in_order_of(
    probability: Float64[Tensor, " n"], score: Float64[Tensor, " n"]
) -> Float64[Tensor, " n"]:
    """Assign the highest score to the label with the lowest probability, and so on.

    Labels of equal probability get the mean of their scores.
    """
    order = probability.argsort(stable=True)
    group = torch.zeros(len(probability), dtype=torch.int64)
    group[order[1:]] = (probability[order].diff() > 0).cumsum(0)
    sums = torch.zeros(len(probability), dtype=torch.float64)
    sums.index_add_(0, group[order], score.sort(descending=True).values)
    means: Tensor = (sums / group.bincount(minlength=len(probability)).clamp(min=1))[group]
    return means


def _log_odds_of_losses(losses: Float64[Tensor, " n"], labels: ArrayLike) -> Float64[Tensor, " n"]:
    """Return the log-odds that labels are wrong, by a mixture of two normal distributions.

    The upper one is that of wrong labels. Both have the same width, so that a higher loss is always
    more suspect.
    """
    if torch.as_tensor(labels).shape != losses.shape or len(losses) < 2:
        raise InvalidValueError(
            f"at least two losses are needed, and one label for each; got {len(losses)} losses"
        )
    if not bool(torch.isfinite(losses).all()):
        raise InvalidValueError("losses must be finite, got NaN or infinite ones")
    if bool((losses == losses[0]).all()):
        return torch.zeros_like(losses)  # no evidence
    log_joint = _two_normal_distributions(losses)
    return log_joint[:, 1] - log_joint[:, 0]


def _two_normal_distributions(losses: Float64[Tensor, " n"]) -> Float64[Tensor, "n two"]:
    """Return the log-density of each loss under the lower and the upper distribution, by EM.

    EM starts at the best split of the losses in two, which has a closed form. So the result is
    deterministic, and equals that of scikit-learn's GaussianMixture from the same start.
    """

    def fitted(shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        counts = shares.sum(0).clamp(min=LEAST_PROBABILITY)
        means = (shares * losses[:, None]).sum(0) / counts
        spread = (shares * (losses[:, None] - means) ** 2).sum() / len(losses)
        return counts / counts.sum(), means, spread + _LEAST_VARIANCE

    def log_joint_of(weights: Tensor, means: Tensor, variance: Tensor) -> Tensor:
        distance = (losses[:, None] - means) ** 2 / (2 * variance)
        return weights.log() - distance - variance.log() / 2

    is_high = _upper_part(losses).double()
    weights, _, variance = fitted(torch.stack([1 - is_high, is_high], dim=1))
    means = torch.from_numpy(np.quantile(losses.numpy(), [0.1, 0.9]))
    before = -torch.inf
    for _ in range(_MIXTURE_ROUNDS):
        log_joint = log_joint_of(weights, means, variance)
        likelihood = log_joint.logsumexp(1).mean().item()
        weights, means, variance = fitted(log_joint.softmax(1))
        if abs(likelihood - before) < _MIXTURE_TOLERANCE:
            break
        before = likelihood
    order = means.argsort()
    return log_joint_of(weights[order], means[order], variance)


def _upper_part(losses: Float64[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """True for the losses above the split into two parts with the least variance within them."""
    ascending = losses.sort().values
    below = torch.arange(1, len(losses), dtype=torch.float64)
    sums = (ascending - ascending.mean()).cumsum(0)[:-1]
    between = sums**2 * (1 / below + 1 / (len(losses) - below))
    return losses > ascending[between.argmax()]
