"""What the public edge refuses: each error says what was expected, what came, and what to do.

Everything behind the edge is bare mathematics and trusts its arguments.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import InvalidTypeError, InvalidValueError

ArrayLike: TypeAlias = float | Sequence[float] | Sequence[Sequence[float]] | NDArray[Any] | Tensor

_SUM_TOLERANCE = 1e-4  # a float32 estimate over a thousand classes is off by less


class NoiseRateWarning(UserWarning):
    """A noise rate so high that the observed label is no longer the likeliest one."""


def as_float64(values: ArrayLike) -> Tensor:
    """The theory computes in float64, whatever comes in; a tensor keeps its graph and device."""
    return torch.as_tensor(values, dtype=torch.float64)


def check_count(name: str, value: int, least: int = 1) -> int:
    """A whole number, large enough."""
    if isinstance(value, bool) or not math.isfinite(value) or int(value) != value:
        raise InvalidTypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_num_classes(num_classes: int) -> int:
    """At least two classes."""
    return check_count("num_classes", num_classes, least=2)


def check_noise_rate(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates"]:
    """Probabilities that a label changes; a warning where the true label is not the likeliest."""
    if isinstance(noise_rate, str):
        raise InvalidTypeError(
            f"noise_rate must be a number here, got {noise_rate!r}: it takes data to estimate it; "
            'use fit(…, TrainingConfig(noise_rate="auto")), or estimate_noise(probs, labels)'
        )
    rates = as_float64(noise_rate)
    if not bool(((rates >= 0) & (rates <= 1)).all()):
        raise InvalidValueError(
            f"noise_rate must lie in [0, 1]: it is the probability that a label changes; "
            f"got {noise_rate!r}"
        )
    limit = (num_classes - 1) / num_classes
    if bool((rates > limit + 1e-12).any()):
        warnings.warn(
            f"noise_rate {rates.max().item():g} is above (c-1)/c = {limit:g} for {num_classes} "
            "classes: the true label is then no longer the likeliest one to be observed",
            NoiseRateWarning,
            stacklevel=_frames_to_caller(),
        )
    return rates


def _frames_to_caller() -> int:
    """How far up the first line outside the library is: the one that a warning should point to."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("noisebound"):
        frame, depth = frame.f_back, depth + 1
    return depth


def check_distribution(p: ArrayLike, name: str = "p") -> Float[Tensor, "*batch classes"]:
    """Non-negative, summing to one along the last axis."""
    distribution = as_float64(p)
    if distribution.ndim == 0:
        raise InvalidValueError(f"{name} must be a vector of class probabilities, got {p!r}")
    if not bool((distribution >= 0).all()):
        raise InvalidValueError(
            f"{name} must be non-negative, got entries down to {distribution.min():g}"
        )
    sums = distribution.sum(-1)
    if not bool(((sums - 1).abs() <= _SUM_TOLERANCE).all()):
        worst = sums.flatten()[(sums - 1).abs().argmax()]
        raise InvalidValueError(
            f"{name} must sum to one over its last axis, got a sum of {worst:g}; "
            "divide it by its sum"
        )
    return distribution


def check_class_prior(class_prior: ArrayLike, num_classes: int) -> Float[Tensor, " classes"]:
    """One probability for each class."""
    prior = check_distribution(class_prior, "class_prior")
    if prior.shape != (num_classes,):
        raise InvalidValueError(
            f"class_prior must have shape ({num_classes},), one probability a class; "
            f"got {tuple(prior.shape)}"
        )
    return prior


def check_transition(transition: ArrayLike) -> Float[Tensor, "classes classes"]:
    """``T[noisy, true]``: square, non-negative, each column summing to one."""
    matrix = as_float64(transition)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise InvalidValueError(
            f"transition must be a square matrix T[noisy, true], got shape {tuple(matrix.shape)}"
        )
    if not bool(torch.isfinite(matrix).all()):
        raise InvalidValueError("transition must be finite, got NaN or infinite entries")
    if bool((matrix < 0).any()):
        raise InvalidValueError(
            f"transition must hold probabilities, got a negative entry {matrix.min():g}"
        )
    columns, rows = matrix.sum(0), matrix.sum(1)
    if not _are_ones(columns):
        if _are_ones(rows):
            raise InvalidValueError(
                "transition must be T[noisy, true] with columns summing to one; here the rows sum "
                "to one and the columns do not: pass its transpose, transition.T"
            )
        worst = columns[(columns - 1).abs().argmax()]
        raise InvalidValueError(
            "transition must be T[noisy, true] with columns summing to one; "
            f"got a column that sums to {worst:g}"
        )
    return matrix


def _are_ones(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() <= _SUM_TOLERANCE).all())


def check_invertible(transition: Float[Tensor, "classes classes"]) -> None:
    """A correction that undoes ``T`` needs its inverse."""
    condition = torch.linalg.cond(transition).item()
    if not condition < 1e12:
        raise InvalidValueError(
            f"transition is singular (condition number {condition:.1e}): the noise it describes "
            "cannot be undone; use ForwardCrossEntropy, which needs no inverse"
        )


def check_within(name: str, value: float, low: float, high: float, *, open_at_low: bool) -> float:
    """A number in ``(low, high]`` or ``[low, high]``."""
    number = float(value)
    if not (low < number <= high or (number == low and not open_at_low)):
        interval = f"{'(' if open_at_low else '['}{low:g}, {high:g}]"
        raise InvalidValueError(f"{name} must lie in {interval}, got {value!r}")
    return number


def check_non_negative(name: str, value: float) -> float:
    """A finite number that is not negative."""
    number = float(value)
    if not (number >= 0 and math.isfinite(number)):
        raise InvalidValueError(f"{name} must be finite and not negative, got {value!r}")
    return number


def check_finite_number(name: str, value: float) -> float:
    """A number that is neither NaN nor infinite."""
    number = float(value)
    if not math.isfinite(number):
        raise InvalidValueError(f"{name} must be a finite number, got {value!r}")
    return number
