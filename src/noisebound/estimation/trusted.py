r"""The noise rate of all labels, from a sample that a person has checked.

The suspicion of a label is an uncalibrated probability that it is wrong. The checked labels
calibrate it by a logistic curve ``θ(s)`` in the log-odds ``s`` of the suspicion. The rate is the
curve's mean over all labels, corrected by its error on the checked ones, each of which represents a
part ``a_i`` of all labels: ``mean θ(s_j) + Σ a_i (z_i - θ(s_i))``, where ``z_i`` is 1 for a wrong
label. So errors of the curve cancel, and the bias is of the order of one answer in all (Lehtonen
and Veijanen, 1998; Angelopoulos et al., 2023).

The interval contains every rate ``r`` that the checked labels do not contradict. For each ``r``,
the curve is shifted along its log-odds until its mean is ``r``. The estimate then has the variance
``Σ a_i² θ_i (1 - θ_i)``, and ``r`` is kept if the estimate is within a few standard errors of it.
This is Wilson's interval for unequal parts. A variance estimated from the answers would be too
small exactly when the estimate is too low.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.checks import check_indices
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import Labels

FEWEST_TRUSTED = 10  # the standard error of a rate is then at most 0.16

_LEAST = 1e-9  # probability, because 0 and 1 have no log-odds
_ROUNDS = 300  # of fitting the curve
_TOLERANCE = 1e-6  # log-odds
_FARTHEST = 60.0  # greatest shift of the curve, in log-odds: over twice those of `_LEAST`
_HALVINGS = 50
_ENOUGH = 1000  # labels that represent all others in the mean of a smooth curve


@dataclass(frozen=True, eq=False)
class Trusted:
    """Labels that a person has checked, of examples that were drawn at random.

    Args:
        positions: the positions of the checked examples
        true_labels: their correct labels
        weights: the number of examples that each represents; by default, all the same
        suspicion: the suspicion of every label of the data, in ``[0, 1]``; by default, one minus
            its predicted probability
    """

    positions: Int64[Tensor, " m"]
    true_labels: Int64[Tensor, " m"]
    weights: Float64[Tensor, " m"] | None = None
    suspicion: Float64[Tensor, " n"] | None = None


class AuditedRate(NamedTuple):
    """A noise rate from checked labels, and its interval."""

    rate: float
    interval: tuple[float, float]


def check_trusted(trusted: Any, labels: Labels, num_classes: int) -> Trusted:
    """Return the checked labels; raise an error if they do not fit the examples."""
    given = trusted if isinstance(trusted, Trusted) else None
    pair = trusted if given is None else (given.positions, given.true_labels)
    try:
        positions, true_labels = pair
    except (TypeError, ValueError) as error:
        raise InvalidValueError("`trusted` must be a pair (positions, true_labels)") from error
    positions = check_indices("trusted positions", positions, len(labels)).cpu()
    true_labels = check_indices("trusted labels", true_labels, num_classes).cpu()
    if len(positions) != len(true_labels) or len(positions) < FEWEST_TRUSTED:
        raise InvalidValueError(
            f"`trusted` needs as many positions as true labels, and at least {FEWEST_TRUSTED}; got "
            f"{len(positions)} and {len(true_labels)}"
        )
    if len(set(positions.tolist())) != len(positions):
        raise InvalidValueError("the positions of `trusted` must be distinct")
    if given is None:
        return Trusted(positions, true_labels)
    weights, suspicion = given.weights, given.suspicion
    if weights is not None and (weights.shape != positions.shape or not (weights > 0).all()):
        raise InvalidValueError(
            f"the weights of `trusted` must be {len(positions)} positive numbers, one per position"
        )
    if suspicion is not None and suspicion.shape != labels.shape:
        raise InvalidValueError(
            f"the suspicion of `trusted` must be {len(labels)} numbers, one for each example; got "
            f"{list(suspicion.shape)}"
        )
    return replace(given, positions=positions, true_labels=true_labels)


def audited_rate(
    is_wrong: Bool[Tensor, " m"],
    suspicion: Float64[Tensor, " m"],
    all_suspicion: Float64[Tensor, " n"],
    confidence: float,
    weights: Float64[Tensor, " m"] | None = None,
) -> AuditedRate:
    """Return the noise rate of all labels from the checked ones and the suspicion of each label.

    Args:
        is_wrong: which of the checked labels are wrong
        suspicion: the suspicion of the checked labels, in ``[0, 1]``
        all_suspicion: the suspicion of all labels
        confidence: the probability that the interval contains the rate
        weights: the number of examples that each checked label represents; by default, all the same
    """
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    wrong = is_wrong.double()
    count, size = len(wrong), len(all_suspicion)
    parts = torch.full_like(wrong, 1 / count) if weights is None else weights / weights.sum()
    checked, others = (each.logit(eps=_LEAST) for each in (suspicion, all_suspicion))
    curve = calibrated(wrong, checked, parts)
    rate = float(curve(others).mean() + parts @ (wrong - curve(checked)))
    rate = min(max(rate, 0.0), 1.0)
    # A label that represents only itself adds no variance.
    shares = parts**2 * (1 - 1 / (parts * size)).clamp(min=0)
    if bool((checked == checked[0]).all() and (parts == parts[0]).all()):
        exact = clopper_pearson(int(wrong.sum()), count, confidence)
        return AuditedRate(float(wrong.mean()), exact)
    limit = float(stdtrit(count - 1, (1 + confidence) / 2))
    low, high = _uncontradicted(rate, curve, checked, _thinned(others), shares, limit)
    # If all checked labels are right, the rate may be 0; if all are wrong, 1.
    return AuditedRate(rate, (low if is_wrong.any() else 0.0, 1.0 if is_wrong.all() else high))


class Curve(NamedTuple):
    """The log-odds that a label is wrong, linear in the log-odds of its suspicion."""

    intercept: float
    slope: float

    def __call__(
        self, log_odds: Float64[Tensor, " m"], shift: float = 0.0
    ) -> Float64[Tensor, " m"]:
        """Return the probability of each label."""
        return (self.intercept + shift + self.slope * log_odds).sigmoid()


def calibrated(
    wrong: Float64[Tensor, " m"], log_odds: Float64[Tensor, " m"], parts: Float64[Tensor, " m"]
) -> Curve:
    """Return the curve with the highest likelihood of the answers, 1 for wrong and 0 for right.

    One additional answer, half wrong and half right, is spread over the checked labels, so that the
    curve is never certain (Clogg et al., 1991). Each round maximizes a quadratic that touches the
    log-likelihood from below (Jaakkola and Jordan, 2000); unlike Newton's method, this cannot
    overshoot.
    """
    count = len(wrong)
    weight = count * parts + 1 / count
    answer = (count * parts * wrong + 0.5 / count) / weight
    design = torch.stack([torch.ones_like(log_odds), log_odds], 1)
    pulled = design.T @ (weight * (answer - 0.5))
    ridge = _LEAST * torch.eye(2, dtype=torch.float64)  # for suspicions that are all equal
    found = torch.zeros(2, dtype=torch.float64)
    for _ in range(_ROUNDS):
        fitted = (design @ found).abs().clamp(min=_LEAST)
        bend = weight * (fitted / 2).tanh() / (2 * fitted)
        better = torch.linalg.solve((design * bend[:, None]).T @ design + ridge, pulled)
        is_found = float((better - found).abs().max()) < _TOLERANCE
        found = better
        if is_found:
            break
    return Curve(*found.tolist())


def _uncontradicted(
    rate: float,
    curve: Curve,
    checked: Float64[Tensor, " m"],
    others: Float64[Tensor, " k"],
    shares: Float64[Tensor, " m"],
    limit: float,
) -> tuple[float, float]:
    """Return the lowest and the highest rate within ``limit`` standard errors of the estimate."""

    def end(sign: float) -> float:
        low, high = -_FARTHEST, _FARTHEST
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            expected = curve(checked, middle)
            error = math.sqrt(float(shares @ (expected * (1 - expected))))
            is_below = rate - float(curve(others, middle).mean()) > sign * limit * error
            low, high = (middle, high) if is_below else (low, middle)
        return float(curve(others, low).mean())

    lowest = 0.0 if rate <= 0 else end(1.0)
    highest = 1.0 if rate >= 1 else end(-1.0)
    return lowest, highest


def _thinned(values: Float64[Tensor, " n"]) -> Float64[Tensor, " k"]:
    """Return at most 1,000 of the values, evenly by rank, with about the same mean."""
    if len(values) <= _ENOUGH:
        return values
    places = (torch.arange(_ENOUGH) + 0.5) * (len(values) / _ENOUGH)
    return values.sort().values[places.long()]


def labels_to_check(noise_rate: float, num_examples: int, precision: float = 0.03) -> int:
    """Return how many random labels to check by hand to know the noise rate to ``± precision``.

    Args:
        noise_rate: a guess of the rate; 0.5 needs the most labels
        num_examples: the number of labels
        precision: half the width of the 95 % interval

    Example:
        >>> labels_to_check(0.2, 3000), labels_to_check(0.2, 3000, precision=0.05)
        (557, 228)
    """
    rate = min(max(noise_rate, precision), 1 - precision)  # an estimate of 0 may be wrong
    wanted = 1.96**2 * rate * (1 - rate) / precision**2
    return min(num_examples, math.ceil(wanted / (1 + wanted / num_examples)))


def clopper_pearson(count: float, of: float, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a share of ``count`` in ``of``."""
    from scipy.special import betaincinv  # takes longer to import than all of noisebound

    tail = (1 - confidence) / 2
    low = 0.0 if count <= 0 else float(betaincinv(count, of - count + 1, tail))
    high = 1.0 if count >= of else float(betaincinv(count + 1, of - count, 1 - tail))
    return low, high
