r"""The noise rate of all labels, from a sample that a person has checked.

The suspicion of a label is an uncalibrated probability that it is wrong. The checked labels
calibrate it by a logistic curve ``θ(s)`` in its log-odds ``s``. The rate is the curve's mean over
all labels plus its error on the checked ones, so that errors of the curve cancel (Lehtonen and
Veijanen, 1998; Angelopoulos et al., 2023): ``mean θ(s_j) + Σ a_i (z_i - θ(s_i))``, where ``z_i`` is
1 for a wrong label, which represents a part ``a_i`` of all labels.

The interval is Wilson's for unequal parts. It contains the rate ``r`` if the estimate is within a
few standard errors of it, whose variance is ``Σ a_i² θ_i (1 - θ_i)`` for the curve that is shifted
along its log-odds until its mean is ``r``.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.checks import check_indices
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import Labels

FEWEST_TRUSTED = 10  # the standard error of a rate is then at most 0.16
UPPER = 0.975  # quantile at the upper end of a 95 % interval
REACH = NormalDist().inv_cdf(UPPER)  # standard errors from the mean to that end

_LEAST = 1e-9  # probability, because 0 and 1 have no log-odds
_ROUNDS = 300  # of fitting the curve
_TOLERANCE = 1e-6  # log-odds
_FARTHEST = 60.0  # greatest shift of the curve, in log-odds: over twice those of `_LEAST`
_HALVINGS = 50
_ENOUGH = 1000  # labels that represent all others in the mean of a smooth curve


class Trusted(NamedTuple):
    """Labels that a person has checked, of examples that were drawn at random.

    The suspicion of every label of the data lies in ``[0, 1]``; by default, it is one minus the
    predicted probability of the label.
    """

    positions: Int64[Tensor, " m"]
    true_labels: Int64[Tensor, " m"]
    weights: Float64[Tensor, " m"] | None = None  # examples that each represents; equal by default
    suspicion: Float64[Tensor, " n"] | None = None


class AuditedRate(NamedTuple):
    """A noise rate from checked labels, and its 95 % interval."""

    rate: float
    interval: tuple[float, float]


def check_trusted(trusted: Any, labels: Labels, num_classes: int) -> Trusted:
    """Return the checked labels; refuse them if they do not fit the examples."""
    positions, true_labels, weights, suspicion = (*trusted, None, None)[:4]
    positions = check_indices("trusted positions", positions, len(labels)).cpu()
    true_labels = check_indices("trusted labels", true_labels, num_classes).cpu()
    if len(positions) != len(true_labels) or len(positions) < FEWEST_TRUSTED:
        raise InvalidValueError(
            f"`trusted` needs as many positions as true labels, and at least {FEWEST_TRUSTED}; got "
            f"{len(positions)} and {len(true_labels)}"
        )
    if len(set(positions.tolist())) != len(positions):
        raise InvalidValueError("the positions of `trusted` must be distinct")
    return Trusted(positions, true_labels, weights, suspicion)


def audited_rate(
    is_wrong: Bool[Tensor, " m"],
    suspicion: Float64[Tensor, " m"],
    all_suspicion: Float64[Tensor, " n"],
    weights: Float64[Tensor, " m"] | None = None,
) -> AuditedRate:
    """Return the noise rate of all labels from the checked ones and the suspicion of each label.

    The weights are the numbers of examples that the checked labels represent, by default equal.
    """
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    wrong = is_wrong.double()
    count, size = len(wrong), len(all_suspicion)
    parts = torch.full_like(wrong, 1 / count) if weights is None else weights / weights.sum()
    checked, others = (each.logit(eps=_LEAST) for each in (suspicion, all_suspicion))
    if bool((checked == checked[0]).all() and (parts == parts[0]).all()):
        return AuditedRate(float(wrong.mean()), clopper_pearson(int(wrong.sum()), count))
    curve = calibrated(wrong, checked, parts)
    rate = float(curve(others).mean() + parts @ (wrong - curve(checked)))
    rate = min(max(rate, 0.0), 1.0)
    # A label that represents only itself adds no variance.
    shares = parts**2 * (1 - 1 / (parts * size)).clamp(min=0)
    limit = float(stdtrit(count - 1, UPPER))
    low, high = _uncontradicted(rate, curve, checked, _thinned(others), shares, limit)
    # If all checked labels are right, the rate may be 0; if all are wrong, 1.
    return AuditedRate(rate, (low if is_wrong.any() else 0.0, 1.0 if is_wrong.all() else high))


class Curve(NamedTuple):
    """The probability that a label is wrong, with log-odds linear in those of its suspicion."""

    intercept: float
    slope: float

    def __call__(
        self, log_odds: Float64[Tensor, " m"], shift: float = 0.0
    ) -> Float64[Tensor, " m"]:
        return (self.intercept + shift + self.slope * log_odds).sigmoid()


def calibrated(
    wrong: Float64[Tensor, " m"], log_odds: Float64[Tensor, " m"], parts: Float64[Tensor, " m"]
) -> Curve:
    """Return the likeliest curve, given answers of 1 for wrong and 0 for right.

    One more answer, half wrong and half right, is spread over the checked labels, so that the curve
    is never certain (Clogg et al., 1991). Each round maximizes a lower bound of the log-likelihood
    (Jaakkola and Jordan, 2000), which unlike Newton's method cannot overshoot.
    """
    count = len(wrong)
    weight = count * parts + 1 / count
    answer = (count * parts * wrong + 0.5 / count) / weight
    design = torch.stack([torch.ones_like(log_odds), log_odds], 1)
    pulled = design.T @ (weight * (answer - 0.5))
    ridge = _LEAST * torch.eye(2, dtype=torch.float64)  # for suspicions that are all equal
    found, change = torch.zeros(2, dtype=torch.float64), math.inf
    for _ in range(_ROUNDS):
        if change < _TOLERANCE:
            break
        fitted = (design @ found).abs().clamp(min=_LEAST)
        bend = weight * (fitted / 2).tanh() / (2 * fitted)
        better = torch.linalg.solve((design * bend[:, None]).T @ design + ridge, pulled)
        found, change = better, float((better - found).abs().max())
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

    Example:
        >>> labels_to_check(0.2, 3000), labels_to_check(0.2, 3000, precision=0.05)
        (557, 228)
    """
    rate = min(max(noise_rate, precision), 1 - precision)  # an estimate of 0 may be wrong
    wanted = REACH**2 * rate * (1 - rate) / precision**2
    return min(num_examples, math.ceil(wanted / (1 + wanted / num_examples)))


def clopper_pearson(count: float, of: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a share of ``count`` in ``of``."""
    from scipy.special import betaincinv  # takes longer to import than all of noisebound

    low = 0.0 if count <= 0 else float(betaincinv(count, of - count + 1, 1 - UPPER))
    high = 1.0 if count >= of else float(betaincinv(count + 1, of - count, UPPER))
    return low, high
