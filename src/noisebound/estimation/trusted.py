"""What labels that a person has checked tell of all labels: prediction-powered inference.

The checked labels alone give an unbiased rate with an exact interval. Suspicions about all labels
make it sharper: their mean is corrected by how far they are off on the checked ones, so that the
rate stays unbiased however wrong the suspicions are (Angelopoulos et al., 2023).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.errors import InvalidValueError

FEWEST_TRUSTED = 10  # checked labels: the standard error of a rate is then at most 0.16


@dataclass(frozen=True, eq=False)
class Trusted:
    """Labels that a person has checked; the examples must have been drawn at random.

    Args:
        positions: the positions of the checked examples
        true_labels: what their labels should be
        weights: how many examples each of them stands for, where some were likelier to be drawn
            than others; None if all were as likely
        suspicion: how suspect every label of the data is, in ``[0, 1]``; None to take how little
            the predictions expect it
    """

    positions: Int64[Tensor, " m"]
    true_labels: Int64[Tensor, " m"]
    weights: Float64[Tensor, " m"] | None = None
    suspicion: Float64[Tensor, " n"] | None = None


@dataclass(frozen=True)
class AuditedRate:
    """A noise rate from checked labels.

    Args:
        rate: the share of wrong labels
        interval: the interval at the confidence that was asked for
        checked: how many labels were checked
        spread: the standard deviation of what one checked label contributes
    """

    rate: float
    interval: tuple[float, float]
    checked: int
    spread: float


def check_trusted(trusted: Any, labels: Int64[Tensor, " n"], num_classes: int) -> Trusted:
    """Return the checked labels, or refuse them if they do not fit the examples."""
    given = trusted if isinstance(trusted, Trusted) else None
    pair = trusted if given is None else (given.positions, given.true_labels)
    try:
        positions, true_labels = (torch.as_tensor(part).cpu() for part in pair)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            "`trusted` must be a pair (positions, true_labels) of whole numbers"
        ) from error
    for name, part in (("positions", positions), ("true_labels", true_labels)):
        if part.ndim != 1 or part.is_floating_point() or part.dtype == torch.bool:
            raise InvalidValueError(
                f"the {name} of `trusted` must be a list of whole numbers, got {part.dtype} of "
                f"shape {tuple(part.shape)}"
            )
    if len(positions) != len(true_labels) or len(positions) < FEWEST_TRUSTED:
        raise InvalidValueError(
            f"`trusted` needs as many positions as true labels, and at least {FEWEST_TRUSTED}; got "
            f"{len(positions)} and {len(true_labels)}"
        )
    if len(set(positions.tolist())) != len(positions):
        raise InvalidValueError("the positions of `trusted` must be distinct")
    for name, part, most in (
        ("positions", positions, len(labels)),
        ("true_labels", true_labels, num_classes),
    ):
        if int(part.min()) < 0 or int(part.max()) >= most:
            raise InvalidValueError(f"the {name} of `trusted` must lie in 0 … {most - 1}")
    found = Trusted(positions.long(), true_labels.long())
    return found if given is None else _with_weights(found, given, len(labels))


def _with_weights(found: Trusted, given: Trusted, num_examples: int) -> Trusted:
    weights, suspicion = given.weights, given.suspicion
    if weights is not None and (weights.shape != found.positions.shape or not (weights > 0).all()):
        raise InvalidValueError(
            f"the weights of `trusted` must be {len(found.positions)} positive numbers, one for "
            "each position"
        )
    if suspicion is not None and suspicion.shape != (num_examples,):
        raise InvalidValueError(
            f"the suspicion of `trusted` must be {num_examples} numbers, one for each example; got "
            f"{list(suspicion.shape)}"
        )
    return replace(found, weights=weights, suspicion=suspicion)


def audited_rate(
    is_wrong: Bool[Tensor, " m"],
    suspicion: Float64[Tensor, " m"],
    all_suspicion: Float64[Tensor, " n"],
    confidence: float,
    weights: Float64[Tensor, " m"] | None = None,
) -> AuditedRate:
    """Return the noise rate of all labels from the checked ones and from suspicions about all.

    Args:
        is_wrong: which of the checked labels are wrong
        suspicion: how suspect the checked labels were, in ``[0, 1]``
        all_suspicion: how suspect every label is
        confidence: the probability with which the interval is to hold the rate
        weights: how many examples each checked label stands for; None if all stand for as many
    """
    wrong = is_wrong.double()
    n, count = len(all_suspicion), len(wrong)
    parts = torch.full_like(wrong, 1 / count) if weights is None else weights / weights.sum()
    share = _best_share(wrong, suspicion, parts)
    residual = wrong - share * suspicion
    rate = float(share * all_suspicion.mean() + parts @ residual)
    variance = _variance_of_mean(residual, parts) * (1 - count / n)
    variance += share**2 * float(all_suspicion.var()) / n
    exact_rate = float(parts @ wrong)
    exact = _exact_interval(wrong, parts, confidence)
    reach = _quantile(count - 1, confidence) * math.sqrt(variance)
    sharpened = (max(0.0, rate - reach), min(1.0, rate + reach))
    # No residual varies where every suspicion was right so far: then only the exact one is honest.
    if reach == 0 or sharpened[1] - sharpened[0] > exact[1] - exact[0]:
        spread = math.sqrt(count * _variance_of_mean(wrong, parts))
        return AuditedRate(exact_rate, exact, count, spread)
    spread = math.sqrt(count * _variance_of_mean(residual, parts))
    return AuditedRate(min(max(rate, 0.0), 1.0), sharpened, count, spread)


def _variance_of_mean(values: Float64[Tensor, " m"], parts: Float64[Tensor, " m"]) -> float:
    """Return the variance of a weighted mean, as if examples had been drawn one by one."""
    count = len(values)
    return float((parts**2) @ (values - parts @ values) ** 2) * count / (count - 1)


def _exact_interval(
    wrong: Float64[Tensor, " m"], parts: Float64[Tensor, " m"], confidence: float
) -> tuple[float, float]:
    """Return the exact interval; of weighted answers, that of as many as they are worth.

    Answers of unequal weight are worth ``1 / Σ parts²`` of equal weight (Kish, 1965).
    """
    if bool((parts == parts[0]).all()):
        return clopper_pearson(int(wrong.sum()), len(wrong), confidence)
    worth = float(1 / (parts**2).sum())
    return clopper_pearson(float(parts @ wrong) * worth, worth, confidence)


def labels_to_check(spread: float, precision: float, num_examples: int) -> int:
    """Return how many labels to check by hand to know the noise rate to ``± precision``.

    Args:
        spread: the standard deviation of what one checked label contributes, at most 0.5
        precision: half the width of the interval at 95 % confidence
        num_examples: how many labels there are
    """
    wanted = (1.96 * spread / precision) ** 2
    return min(num_examples, math.ceil(wanted / (1 + wanted / num_examples)))


def clopper_pearson(count: float, of: float, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a share that was seen ``count`` times in ``of``."""
    from scipy.special import betaincinv  # takes longer to import than all of noisebound

    tail = (1 - confidence) / 2
    low = 0.0 if count <= 0 else float(betaincinv(count, of - count + 1, tail))
    high = 1.0 if count >= of else float(betaincinv(count + 1, of - count, 1 - tail))
    return low, high


def _best_share(
    wrong: Float64[Tensor, " m"], suspicion: Float64[Tensor, " m"], parts: Float64[Tensor, " m"]
) -> float:
    """Return how much to believe the suspicions, so that the rate varies least; in ``[0, 1]``."""
    centered = suspicion - parts @ suspicion
    variance = float(parts @ centered**2)
    if variance == 0:
        return 0.0
    covariance = float(parts @ ((wrong - parts @ wrong) * centered))
    return min(1.0, max(0.0, covariance / variance))


def _quantile(freedom: int, confidence: float) -> float:
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    return float(stdtrit(freedom, (1 + confidence) / 2))
