"""Estimate the noise from predictions and labels: the rate, its interval and the matrix."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from noisebound.checks import ArrayLike, as_float64, check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.identification import identify
from noisebound.estimation.names import ESTIMATION_METHODS, EstimationMethod
from noisebound.estimation.predictions import (
    Labels,
    Matrix,
    Probs,
    are_informative,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.transitions import (
    agreement_transition,
    anchor_transition,
    confident_transition,
    dual_transition,
    neighbor_triples,
    transition_of_triples,
    with_rate,
)
from noisebound.estimation.trusted import (
    AuditedRate,
    Trusted,
    audited_rate,
    check_trusted,
    labels_to_check,
)

_Estimator: TypeAlias = Callable[[Tensor], Tensor]  # from the positions of units to a matrix

_GROUPS = 20  # of the jackknife, enough for a t-distribution that is close to normal
_PRIOR_LABELS = 10.0  # weight of the model's matrix, in checked labels per class; heuristic
_NEAR_CHANCE = 0.95  # share of the rate at which labels carry no information

UNPREDICTABLE = "if mistakes cannot be predicted from the inputs"
_CONDITIONS = {
    "agreement": UNPREDICTABLE,
    "anchor": "if some examples of each class are certain",
    "dual-t": "if the model's mistakes are independent of those in the labels",
    "confident": "if the model errs equally often on all classes",
    "neighbors": "if neighbors are of the same class",
}


@dataclass(frozen=True)
class Diagnostics:
    """The quality of an estimate.

    Args:
        method: the name of the estimator
        examples: the number of examples
        agreement: the share of labels that equal the predicted class
        warnings: the problems with the estimate, one sentence each
        rejection: the problem that makes the estimate useless
    """

    method: str
    examples: int
    agreement: float
    warnings: tuple[str, ...] = ()
    rejection: str | None = None


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The estimated label noise of a data set.

    Args:
        noise_rate: the probability that a label is wrong
        transition: ``T[noisy, true]``, columns summing to one
        class_prior: the share of each true class
        interval: the interval of the noise rate
        diagnostics: the quality of the estimate
        words: the evidence and the assumptions behind the estimate
        labels_to_check: the number of labels to check by hand to know the noise rate to ±3 points
        condition: the condition under which the interval is valid, in a few words
        confidence: the probability that the interval contains the noise rate
    """

    noise_rate: float
    transition: Matrix
    class_prior: Float64[Tensor, " classes"]
    interval: tuple[float, float]
    diagnostics: Diagnostics
    words: str = ""
    labels_to_check: int = 0
    condition: str = UNPREDICTABLE
    confidence: float = 0.95

    @property
    def is_reliable(self) -> bool:
        """True if there are no warnings."""
        return not self.diagnostics.warnings

    @property
    def summary(self) -> str:
        """The rate and its interval, with the condition of the interval."""
        low, high = self.interval
        sure = f"{self.confidence:.0%} confidence"
        return f"{self.noise_rate:.1%} ({low:.1%} to {high:.1%} with {sure}, {self.condition})"


def estimate_noise(
    probs: ArrayLike,
    labels: ArrayLike,
    method: EstimationMethod = "agreement",
    *,
    second_probs: ArrayLike | None = None,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted | None = None,
    features: ArrayLike | None = None,
    confidence: float = 0.95,
) -> NoiseEstimate:
    """Estimate the noise of labels from the predictions of a model that was trained on such labels.

    Data shows how often labels differ from the best possible prediction. It does not show how many
    labels are *wrong*: people err on hard examples, and a hard example with the right label looks
    the same. So the interval of ``"agreement"`` has a lower and an upper end, plus sampling error.
    `NoiseEstimate.condition` says when the interval is valid, and `NoiseEstimate.words` explains
    the estimate. A hundred checked labels remove the condition: pass them as ``trusted``.

    - ``"agreement"``, the default: agreement of labels with predictions, mainly confident ones
    - ``"anchor"``: predictions at examples that certainly belong to a class
    - ``"dual-t"``: Dual-T, for predictions on the training examples themselves
    - ``"confident"``: confident learning, by cleanlab
    - ``"neighbors"``: agreement of the labels of nearest neighbors

    Args:
        probs: out-of-fold probabilities of the *noisy* label, one row per example, for example from
            cross-validation
        labels: observed class indices
        method: the estimator
        second_probs: out-of-fold probabilities by models that were trained on other examples, for
            example from a second cross-validation with other folds. Labels are compared with the
            mean of both; where the two disagree, predictions may be wrong
        trusted: ``(positions, true_labels)`` of examples that were drawn at random and checked by a
            person. They make the rate unbiased for any noise. Pass a `Trusted` if the examples were
            drawn with unequal probabilities
        features: vectors for ``"neighbors"``, in which similar examples are near each other; by
            default the predictions
        confidence: the probability that the interval contains the noise rate

    Example:
        >>> from noisebound import corrupt
        >>> g = torch.Generator().manual_seed(0)
        >>> true = torch.arange(10).repeat(200)
        >>> noisy = corrupt(true, "symmetric", 0.3, 10, generator=g, exact=True)
        >>> probs = noisy.transition[:, true].T  # the best possible predictions
        >>> estimate = estimate_noise(probs, noisy.labels)
        >>> abs(estimate.noise_rate - 0.3) < 0.03, estimate.is_reliable
        (True, True)
    """
    predictions = check_predictions(probs)
    observed = check_labels(labels, predictions, "probs")
    level = check_number("confidence", confidence, "(0, 1]")
    in_doubt = None
    if second_probs is not None:
        second = _check_second(second_probs, predictions, method)
        in_doubt = predictions.argmax(1) != second.argmax(1)
        predictions = (predictions + second) / 2
    _check_method(method, features)
    num_classes = predictions.shape[1]
    sureness, predicted = predictions.max(1)
    prior = predicted.bincount(minlength=num_classes).double() / len(predicted)
    condition = _CONDITIONS[method]
    if method == "agreement":
        transition = agreement_transition(sureness, predicted, observed, num_classes)
        found = identify(predictions, observed, _rate(transition, prior), in_doubt)
        rate, interval, words = found.point, found.interval(level), found.words
        transition = with_rate(transition, prior, rate)
    else:
        size, estimator = _estimator(method, predictions.double(), observed, features)
        transition = estimator(torch.arange(size))
        rate = _rate(transition, prior)
        interval = _interval(rate, prior, size, estimator, level)
        words = f"The interval is valid {condition}. It covers sampling error only."
    if trusted is not None:
        checked = check_trusted(trusted, observed, num_classes)
        rate, interval = _audited(checked, predictions, observed, level)
        count = len(checked.positions)
        condition = f"by {count:,} checked labels"
        words = f"By {count} labels that a person has checked, drawn at random."
        transition = _with_trusted(transition, checked, observed)
    return NoiseEstimate(
        noise_rate=rate,
        transition=transition,
        class_prior=prior,
        interval=interval,
        diagnostics=_diagnose(method, rate, predictions, observed, is_audited=trusted is not None),
        words=words,
        labels_to_check=labels_to_check(rate, len(observed)),
        condition=condition,
        confidence=level,
    )


def _check_second(
    second_probs: ArrayLike, probs: Float[Tensor, "n classes"], method: str
) -> Float[Tensor, "n classes"]:
    if method != "agreement":
        raise InvalidTypeError(f"second_probs do not apply to {method!r}: leave them out")
    second = check_predictions(second_probs, "second_probs")
    if second.shape != probs.shape:
        raise InvalidValueError(
            f"`second_probs` must have the shape of `probs`, {tuple(probs.shape)}; got "
            f"{tuple(second.shape)}"
        )
    return second


def _audited(checked: Trusted, probs: Tensor, labels: Labels, level: float) -> AuditedRate:
    """Return the rate by checked labels; suspicions of all labels narrow its interval."""
    suspicion = checked.suspicion
    if suspicion is None:
        suspicion = 1 - of_label(probs, labels).double()
    at = checked.positions
    is_wrong = labels[at] != checked.true_labels
    return audited_rate(is_wrong, suspicion[at], suspicion, level, checked.weights)


def _with_trusted(transition: Matrix, checked: Trusted, labels: Labels) -> Matrix:
    """Return the matrix of the checked labels, with the model's matrix as a prior."""
    num_classes = len(transition)
    cells = labels[checked.positions] * num_classes + checked.true_labels
    weights = checked.weights
    parts = None if weights is None else weights * (len(weights) / weights.sum())
    counts = torch.bincount(cells, parts, minlength=num_classes**2).view(num_classes, num_classes)
    counted = counts.double() + _PRIOR_LABELS * transition
    return counted / counted.sum(0)


def _check_method(method: str, features: ArrayLike | None) -> None:
    if method not in ESTIMATION_METHODS:
        raise InvalidValueError(
            f"method must be one of {', '.join(ESTIMATION_METHODS)}, got {method!r}"
        )
    if features is not None and method != "neighbors":
        raise InvalidTypeError(f"features do not apply to {method!r}: leave them out")


def _estimator(
    method: str, probs: Probs, labels: Labels, features: ArrayLike | None
) -> tuple[int, _Estimator]:
    """Return the number of units and the estimate from some of them, for the jackknife."""
    n, num_classes = probs.shape
    match method:
        case "anchor":
            return n, lambda rows: anchor_transition(probs[rows])
        case "dual-t":
            return n, lambda rows: dual_transition(probs[rows], labels[rows])
        case "confident":
            return n, lambda rows: confident_transition(probs[rows], labels[rows])
    points = probs.sqrt() if features is None else _check_features(features, n)
    triples = neighbor_triples(points, labels)
    return len(triples), lambda rows: transition_of_triples(triples[rows], num_classes)


def _check_features(features: ArrayLike, n: int) -> Float64[Tensor, "n dimensions"]:
    given = as_float64(features)
    if given.ndim < 2 or len(given) != n or not given.isfinite().all():
        raise InvalidValueError(
            f"`features` must have a row of finite numbers per example, {n} rows; got shape "
            f"{tuple(given.shape)}{'' if given.isfinite().all() else ' with NaN or infinity'}"
        )
    return given.flatten(1)


def _rate(transition: Matrix, prior: Tensor) -> float:
    return float((prior * (1 - transition.diagonal())).sum())


def _interval(
    rate: float, prior: Tensor, size: int, estimator: _Estimator, level: float
) -> tuple[float, float]:
    """Return the interval due to sampling error, by a jackknife over groups."""
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    group = torch.randperm(size, generator=torch.Generator().manual_seed(0)) % _GROUPS
    kept = [(group != left_out).nonzero().squeeze(1) for left_out in range(_GROUPS)]
    rates = [_rate(estimator(rows), prior) for rows in kept]
    without = torch.tensor(rates, dtype=torch.float64)
    error = math.sqrt((_GROUPS - 1) / _GROUPS * float(((without - without.mean()) ** 2).sum()))
    reach = float(stdtrit(_GROUPS - 1, (1 + level) / 2)) * error
    # Even if no wrong label was seen, the rate may be about one in the number of labels.
    unseen = -math.log1p(-level) / size if level < 1 else math.inf
    return max(0.0, rate - reach), min(1.0, rate + max(reach, unseen))


def _diagnose(
    method: str, rate: float, probs: Tensor, labels: Tensor, *, is_audited: bool
) -> Diagnostics:
    """Return the problems with an estimate; checked labels do not depend on the model."""
    num_classes = probs.shape[1]
    predicted = probs.argmax(1)
    agreement = (predicted == labels).double().mean().item()
    warnings = []
    if not is_audited and not are_informative(probs, labels):
        warnings.append(
            "the predictions have nothing to do with the labels: the model has learned nothing "
            "that could separate wrong labels from right ones"
        )
    chance = (num_classes - 1) / num_classes
    if not is_audited and rate >= _NEAR_CHANCE * chance:
        warnings.append(
            f"a noise rate of {rate:.2f} is close to {chance:.2f}, at which labels carry no "
            "information: the true rate may be higher"
        )
    rejection = warnings[0] if warnings else None
    missing = num_classes - len(torch.unique(predicted))
    if missing:
        warnings.append(f"{missing} of {num_classes} classes are never predicted")
    return Diagnostics(method, len(labels), agreement, tuple(warnings), rejection)
