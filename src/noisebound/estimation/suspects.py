"""Which labels are wrong: the probability of each, and what the label should be instead."""

import math
import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.bounds import symmetric_columns
from noisebound.checks import ArrayLike, as_float64, check_transition
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.estimate import estimate_noise
from noisebound.estimation.floor import measured_floor
from noisebound.estimation.labels import check_labels, check_predictions
from noisebound.estimation.loss_mixture import log_odds_of_losses
from noisebound.estimation.noise import UnknownNoiseWarning
from noisebound.estimation.noise_estimate import NoiseEstimate
from noisebound.estimation.true_class import true_class_probabilities
from noisebound.losses import CrossEntropy

_TRUSTED_SCORE = -20.0  # log-odds of one in 500 million
_NEARLY_CERTAIN = 0.999
_SURE = 4.6  # log-odds of 99 %; beyond it a score grows with the logarithm of the evidence
_UNFORESEEN = 0.02  # share of the examples whose label the transition matrix does not describe
_SUREST = 1e-3  # no probability is taken to be nearer to zero or one
LEAST_PROBABILITY = 1e-12
_HUSHED = 1e-3  # of log-odds that mean nothing is left: at most 20, so that all are near one half
_TIE = 1e-6  # log-odds between labels that would else be equally suspect
CLEAR = 2.0  # standard errors: a gain that chance explains in one case of forty
_JUDGES = 20_000  # labels that judge a matrix: a gain of a hundredth of a nat is clear by then
_MUCH_NEARER = 1 / 4
"""A matrix is supported too if it moves the predictions so much less than evenly spread noise does:
then they look already as noise of this kind makes them, and it has nothing to mend. A choice."""
_SEEN_AS_NOISE = 2 / 3
"""How many of the labels that differ from predictions, beyond the share that the surest examples
show, are taken to be wrong: a choice on the dev half of ``benchmarks/settings.py``."""


def probability_text(probability: float) -> str:
    """Return a probability for people; no evidence from noisy labels is certain.

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
    """How suspect each label is.

    Args:
        score: the log-odds that the label is wrong
        suggested: the likeliest class other than the label; None where only losses were known
    """

    score: Float64[Tensor, " n"]
    suggested: Int64[Tensor, " n"] | None

    @property
    def probability(self) -> Float64[Tensor, " n"]:
        """The probability that the label is wrong."""
        return self.score.sigmoid()

    @property
    def ranking(self) -> Int64[Tensor, " n"]:
        """The positions of the examples, the most suspect first."""
        return self.score.argsort(descending=True, stable=True)

    def hushed(self) -> "Suspects":
        """Return the same order, with probabilities that are all about one half."""
        return Suspects(_HUSHED * self.score, self.suggested)

    def without(self, is_trusted: Bool[Tensor, " n"]) -> "Suspects":
        """Return the same, where trusted labels are less suspect than any other label."""
        return Suspects(self.score.masked_fill(is_trusted, _TRUSTED_SCORE), self.suggested)


def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
) -> Suspects:
    """Return how likely each label is wrong.

    With probabilities ``q`` of the true class, Bayes' rule gives the probability that the label
    ``y`` is right: ``T[y, y] q_y / Σ_k T[y, k] q_k``. A matrix that is not given is estimated, and
    is used only if it is supported: if seeing the predictions through it foretells the labels
    better, and seeing them through evenly spread noise does not. Else a label is the more suspect
    the less probable the model finds it. Where predictions have no more to do with the labels than
    guesses, a warning says so, and all probabilities are about one half.

    Args:
        probs_or_losses: class probabilities, one row per example, by a model that has not memorized
            the labels: out-of-fold, or from a bounded training. Or one loss per example, which is
            higher for wrong labels: then there is nothing to suggest.
        labels: observed class indices
        transition: ``T[noisy, true]``; estimated if not given
        corrected: whether the probabilities are those of the true class, as a forward-corrected
            loss trains them to be; else they are taken for those of the observed label

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
        return Suspects(log_odds_of_losses(as_float64(given), labels), None)
    probs = check_predictions(given)
    observed = check_labels(labels, probs, "probs")
    if transition is None and not corrected:
        found = suspects_by_evidence(probs.double(), observed)
        if not found.is_informed:
            warnings.warn(
                "no label can be called suspect: the predictions have nothing to do with the "
                "labels; train the model for longer, or on other features",
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
    if corrected:
        return suspects_of(probs.double(), observed, matrix)
    return suspects_through(probs.double(), observed, matrix)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Suspects by given probabilities, and what they rest on.

    Args:
        suspects: the suspects
        is_supported: True if the labels support a noise that has nothing to do with difficulty
        is_informed: True if the predictions have more to do with the labels than guesses
    """

    suspects: Suspects
    is_supported: bool
    is_informed: bool = True


def suspects_by_evidence(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    learned: Int64[Tensor, " n"] | None = None,
    estimate: NoiseEstimate | None = None,
) -> Evidence:
    """Return the suspects by as much structure of the noise as the labels support.

    Args:
        probs: out-of-fold probabilities of the observed label
        labels: class indices to be rated
        learned: the labels that the model has learned, where some were corrected since
        estimate: what is known of the noise, by more than these probabilities; estimated from them
            if it is not given
    """
    learned = labels if learned is None else learned
    estimate = estimate or estimate_noise(probs, learned)
    found = _by_supported_noise(probs, labels, learned, estimate)
    if estimate.diagnostics.rejection is None or _is_informed(probs, learned):
        return found
    # Of a model that knows no more than guessing the order may tell something, the odds nothing.
    return Evidence(found.suspects.hushed(), is_supported=False, is_informed=False)


def _is_informed(probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]) -> bool:
    """True if a class is more probable where it is the label than elsewhere, beyond chance.

    However unequal the classes are and however sure the model is: guessing has nothing of it.
    """
    own = probs.gather(1, labels[:, None]).squeeze(1)
    return _in_errors(own - probs.mean(0)[labels]) > CLEAR


def _in_errors(gains: Float64[Tensor, " n"]) -> float:
    """Return the mean of gains in standard errors."""
    error = float(gains.std(correction=0)) / math.sqrt(len(gains))
    return float(gains.mean()) / max(error, LEAST_PROBABILITY)


def _by_supported_noise(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    learned: Int64[Tensor, " n"],
    estimate: NoiseEstimate,
) -> Evidence:
    num_classes = probs.shape[1]
    rate = _below_chance(estimate.noise_rate, num_classes)
    calibrated = calibrated_by(probs, learned)
    even = symmetric_columns(torch.tensor(rate, dtype=torch.float64), num_classes)
    even_fit = _fit_of_matrix(calibrated, learned, even)
    differing = (probs.argmax(1) != labels).double().mean().item()
    differing = min(differing, estimate.interval[1])  # the rest is what the model does not know
    # A matrix that explains few of the labels that differ would call the others right.
    if even_fit.gain < -CLEAR and rate > differing / 2:
        matrix = estimate.transition
        fit = _fit_of_matrix(calibrated, learned, matrix)
        if fit.gain > CLEAR or fit.distance < _MUCH_NEARER * even_fit.distance:
            return Evidence(suspects_through(calibrated, labels, matrix), True)
    rate = min(rate, differing)
    share = rate + _SEEN_AS_NOISE * (differing - rate)
    return Evidence(_least_probable(probs, calibrated, labels, share), even_fit.gain > CLEAR)


def _least_probable(
    probs: Float64[Tensor, "n classes"],
    calibrated: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    share: float,
) -> Suspects:
    """Return suspects in the order of their labels' probabilities, a share of them over one half.

    The log-odds are those of evenly spread noise of this rate, moved so that the share comes out,
    and given out in the order of the probabilities as they came.
    """
    rate = _below_chance(share, probs.shape[1])
    other = rate / (probs.shape[1] - 1)
    of_label = calibrated.gather(1, labels[:, None]).squeeze(1)
    true = ((of_label - other) / (1 - rate - other)).clamp(_SUREST, 1 - _SUREST)
    score = (other * (1 - true)).clamp(min=LEAST_PROBABILITY).log() - ((1 - rate) * true).log()
    score = score.sort(descending=True).values
    count = round(share * len(labels))
    if 0 < count < len(labels):
        score = score - (score[count - 1] + score[count]) / 2
    # Where the odds are as high or low as they are allowed to be, the order still tells.
    places = torch.arange(len(score), dtype=torch.float64)
    score = score + _TIE * (count - 0.5 - places) / len(score)
    ordered = in_order_of(probs.gather(1, labels[:, None]).squeeze(1), score)
    suggested = probs.scatter(1, labels[:, None], -1).argmax(1)
    return Suspects(_limited(ordered), suggested)


def _mean_of_equals(
    score: Float64[Tensor, " n"], own: Float64[Tensor, " n"]
) -> Float64[Tensor, " n"]:
    """Return scores that are equal where the labels' probabilities are equal."""
    order = own.argsort(stable=True)
    is_next = own[order].diff() > 0
    group = torch.zeros(len(own), dtype=torch.int64)
    group[order[1:]] = is_next.cumsum(0)
    sums = torch.zeros(len(own), dtype=torch.float64).index_add_(0, group, score)
    means: Tensor = (sums / group.bincount(minlength=len(own)).clamp(min=1))[group]
    return means


def _below_chance(rate: float, num_classes: int) -> float:
    """Return the rate, but never so high that labels would say nothing."""
    return min(rate, 0.95 * (num_classes - 1) / num_classes)


def calibrated_by(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "n classes"]:
    """Return the probabilities at the temperature that predicts the labels best."""
    logits = probs.clamp(min=LEAST_PROBABILITY).log()
    judges = _judges(len(labels))
    floor = measured_floor(CrossEntropy(), logits[judges], labels[judges])
    return (logits / floor.temperature).softmax(1)


@dataclass(frozen=True)
class _Fit:
    """How well predictions fit a noise matrix.

    Args:
        gain: how much better labels are foretold through the matrix, in standard errors
        distance: how far the matrix moves the predictions, in total variation
    """

    gain: float
    distance: float


def _fit_of_matrix(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    transition: Float64[Tensor, "classes classes"],
) -> _Fit:
    """Return how well predictions fit a matrix, by some of the labels.

    What no true class can look like through the matrix is replaced by the nearest that it can. If
    the noise is such, that takes errors out of the predictions; if it is not, it puts errors in.
    """
    judges = _judges(len(labels))
    probs, labels = probs[judges], labels[judges, None]
    seen = true_class_probabilities(probs, transition) @ transition.mT
    gain = seen.gather(1, labels).clamp(min=1e-6).log()
    gain -= probs.gather(1, labels).clamp(min=1e-6).log()
    distance = float((seen - probs).abs().sum(1).mean()) / 2
    return _Fit(_in_errors(gain.squeeze(1)), distance)


def _judges(count: int) -> Int64[Tensor, " m"]:
    """Return the positions of some random examples, always the same, or of all if they are few."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_JUDGES]


def suspects_of(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    transition: Float64[Tensor, "classes classes"],
) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the true class."""
    num_classes = len(transition)
    others = 1 - torch.eye(num_classes, dtype=torch.float64)
    foreseen = (1 - _UNFORESEEN) * transition + _UNFORESEEN / (num_classes - 1) * others
    likelihood = (foreseen / foreseen.sum(0))[labels] * probs  # [example, true class]
    right = likelihood.gather(1, labels[:, None]).squeeze(1)
    wrong = likelihood.scatter(1, labels[:, None], 0)
    score = wrong.sum(1).clamp(min=1e-300).log() - right.clamp(min=1e-300).log()
    return Suspects(_limited(score), wrong.argmax(1))


def suspects_through(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    transition: Float64[Tensor, "classes classes"],
) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the observed label.

    The true class's probabilities are zero for each class that the matrix rules out, which would
    make many labels equally suspect. For the examples that the matrix does not describe, the
    observed label's probabilities count instead.
    """
    described = true_class_probabilities(probs, transition)
    return suspects_of(torch.lerp(described, probs, _UNFORESEEN), labels, transition)


def _limited(score: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Return log-odds in the same order that never saturate, and never claim certainty."""
    beyond = (score.abs() - _SURE).clamp(min=0)
    return score.clamp(-_SURE, _SURE) + score.sign() * beyond.log1p()


def in_order_of(own: Float64[Tensor, " n"], score: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Return the scores given out anew: the highest to the label with the least probability."""
    ordered = torch.empty_like(score)
    ordered[own.argsort(stable=True)] = score.sort(descending=True).values
    return _mean_of_equals(ordered, own)
