"""Checks of the arguments of public functions; all other code trusts its arguments.

Each error names the expected value, the value that was passed, and the remedy.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import InvalidTypeError, InvalidValueError

Array: TypeAlias = NDArray[Any] | Tensor
ArrayLike: TypeAlias = float | Sequence[float] | Sequence[Sequence[float]] | Sequence[Array] | Array

_SUM_TOLERANCE = 1e-4  # more than float32 loses in a sum over a thousand classes
_RATE_TOLERANCE = 1e-12  # a rate of exactly (c-1)/c, rounded, is not above it
_LARGEST_CONDITION = 1e12  # leaves four of float64's 16 digits after inversion


class NoiseRateWarning(UserWarning):
    """The noise rate is so high that the true label is not the likeliest one."""


def as_float64(values: ArrayLike) -> Tensor:
    """Return a float64 tensor, the precision of the theory; a tensor keeps its graph and device."""
    return as_tensor(values, torch.float64)


def as_tensor(values: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor, also of a table of pandas or polars."""
    given = np.array(values) if hasattr(values, "to_numpy") else values
    return torch.as_tensor(given, dtype=dtype)


def as_array(values: Any) -> NDArray[Any]:
    """Return an array, also of a tensor in half precision or on a device."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    half = (torch.bfloat16, torch.float16)
    return np.asarray((values.float() if values.dtype in half else values).numpy())


def check_count(name: str, value: int, least: int = 1) -> int:
    """Return ``value``, a whole number of at least ``least``."""
    if isinstance(value, bool) or not math.isfinite(value) or int(value) != value:
        raise InvalidTypeError(f"`{name}` must be a whole number, got {value!r}")
    if value < least:
        raise InvalidValueError(f"`{name}` must be at least {least}, got {value}")
    return int(value)


def check_num_classes(num_classes: int) -> int:
    """Return the number of classes, which is at least two."""
    return check_count("num_classes", num_classes, least=2)


def check_indices(name: str, values: Any, count: int) -> Int64[Tensor, " n"]:
    """Return a vector of whole numbers in ``0 … count - 1``, such as labels."""
    given = values.detach() if isinstance(values, Tensor) else np.asarray(values)
    if given.ndim != 1 or len(given) == 0:
        raise InvalidValueError(
            f"`{name}` must be a vector of whole numbers, got shape {tuple(given.shape)}"
        )
    if not str(given.dtype).removeprefix("torch.").startswith(("int", "uint")):
        raise InvalidTypeError(f"`{name}` must be whole numbers, as indices are; got {given.dtype}")
    # Converted to int64 first, because torch cannot compare uint16, uint32 and uint64.
    indices = given.long() if isinstance(given, Tensor) else torch.tensor(given.astype(np.int64))
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= count:
        raise InvalidValueError(f"`{name}` must lie in 0 … {count - 1}, got {low} … {high}")
    return indices


def check_targets(targets: Tensor) -> Tensor:
    """Return multi-label targets that are 0, 1, or -1 where none was given."""
    # To torch, 255 in uint8 equals -1.
    is_target = (targets == 0) | (targets == 1) | ((targets == -1) & (targets < 0))
    if not bool(is_target.all()):
        raise InvalidValueError(
            "multi-label `labels` must be 0, 1, or -1 where a label was not given; got "
            f"{targets[~is_target][0].item():g}"
        )
    return targets


def check_label_probabilities(probs: ArrayLike) -> Float[Tensor, "examples labels"]:
    """Return multi-label probabilities, one row per example."""
    values = as_float64(probs)
    if values.ndim != 2:
        raise InvalidValueError(
            f"multi-label `probs` must have shape [examples, labels], got {tuple(values.shape)}"
        )
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise InvalidValueError(
            "multi-label `probs` must be probabilities in [0, 1], such as sigmoid(logits), got "
            f"{values.min():g} to {values.max():g}"
        )
    return values


def check_per_label(name: str, values: ArrayLike, num_labels: int) -> Float[Tensor, " labels"]:
    """Return one number in ``[0, 1]`` per label; a single number stands for all labels."""
    numbers = as_float64(values)
    if numbers.shape not in ((), (num_labels,)):
        raise InvalidValueError(
            f"`{name}` must be one number or one per label, {num_labels}; got shape "
            f"{tuple(numbers.shape)}"
        )
    if not bool(((numbers >= 0) & (numbers <= 1)).all()):
        raise InvalidValueError(f"`{name}` must lie in [0, 1], got {values!r}")
    return numbers.expand(num_labels)


def check_noise_rate(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates"]:
    """Return noise rates in ``[0, 1]``; warn if the true label is not the likeliest one."""
    if isinstance(noise_rate, str):
        raise InvalidTypeError(
            f"`noise_rate` must be a number here, got {noise_rate!r}: only from data can it be "
            "estimated; pass the noise_rate of estimate_noise(probs, labels), or call fit"
        )
    rates = as_float64(noise_rate)
    if not bool(((rates >= 0) & (rates <= 1)).all()):
        raise InvalidValueError(
            "`noise_rate` must lie in [0, 1], as it is the probability that a label changes; "
            f"got {noise_rate!r}"
        )
    limit = (num_classes - 1) / num_classes
    if bool((rates > limit + _RATE_TOLERANCE).any()):
        warnings.warn(
            f"`noise_rate` {rates.max().item():g} is above (c-1)/c = {limit:g} for {num_classes} "
            "classes: the true label is no longer the likeliest one",
            NoiseRateWarning,
            stacklevel=frames_to_caller(),
        )
    return rates


def frames_to_caller() -> int:
    """Return the stack level of the first line outside the library, where a warning points to."""
    frame, depth = sys._getframe(1), 1
    inside = ("noisebound", "torch.nn.modules.module")  # torch calls a loss's forward
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(inside):
        frame, depth = frame.f_back, depth + 1
    return depth


def check_distribution(p: ArrayLike, name: str = "p") -> Float[Tensor, "*batch classes"]:
    """Return distributions: non-negative, and summing to one along the last axis."""
    distribution = as_float64(p)
    if distribution.ndim == 0:
        raise InvalidValueError(f"`{name}` must be a vector of class probabilities, got {p!r}")
    if not bool((distribution >= 0).all()):
        raise InvalidValueError(
            f"`{name}` must be non-negative, got entries down to {distribution.min():g}"
        )
    sums = distribution.sum(-1)
    if not _are_ones(sums):
        worst = sums.flatten()[(sums - 1).abs().argmax()]
        raise InvalidValueError(
            f"`{name}` must sum to one over its last axis, got a sum of {worst:g}; "
            "divide it by its sum"
        )
    return distribution


def check_posteriors(probs: ArrayLike) -> Float[Tensor, "examples classes"]:
    """Return class probabilities, one row per example."""
    posteriors = check_distribution(probs, "probs")
    if posteriors.ndim != 2 or len(posteriors) == 0:
        raise InvalidValueError(
            f"`probs` must have shape [examples, classes], got {tuple(posteriors.shape)}"
        )
    return posteriors


def check_class_prior(class_prior: ArrayLike, num_classes: int) -> Float[Tensor, " classes"]:
    """Return the prior, one probability per class."""
    prior = check_distribution(class_prior, "class_prior")
    if prior.shape != (num_classes,):
        raise InvalidValueError(
            f"`class_prior` must have shape ({num_classes},), one probability per class; "
            f"got {tuple(prior.shape)}"
        )
    return prior


def check_transition(transition: ArrayLike) -> Float[Tensor, "classes classes"]:
    """Return ``T[noisy, true]``: square, non-negative, each column summing to one."""
    matrix = as_float64(transition)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise InvalidValueError(
            f"`transition` must be a square matrix T[noisy, true], got shape {tuple(matrix.shape)}"
        )
    if not bool(torch.isfinite(matrix).all()):
        raise InvalidValueError("`transition` must be finite, got NaN or infinite entries")
    if bool((matrix < 0).any()):
        raise InvalidValueError(
            f"`transition` must hold probabilities, got a negative entry {matrix.min():g}"
        )
    columns, rows = matrix.sum(0), matrix.sum(1)
    if not _are_ones(columns):
        worst = columns[(columns - 1).abs().argmax()]
        got = f"got a column that sums to {worst:g}"
        if _are_ones(rows):
            got = "here the rows sum to one: pass its transpose, transition.T"
        raise InvalidValueError(
            f"`transition` must be T[noisy, true] with columns summing to one; {got}"
        )
    return matrix


def check_label_transitions(
    transition: ArrayLike, num_labels: int | None = None
) -> Float[Tensor, "labels 2 2"]:
    """Return ``T[noisy, true]`` of the classes absent and present, one matrix for each label."""
    matrices = as_float64(transition)
    shape = tuple(matrices.shape)
    wanted = num_labels or (shape[0] if len(shape) == 3 else 1)
    if shape not in ((2, 2), (wanted, 2, 2)):
        raise InvalidValueError(
            "multi-label `transition` must have shape (2, 2), or (labels, 2, 2) with one matrix "
            f"per label; got {shape}" + ("" if num_labels is None else f" for {num_labels} labels")
        )
    return torch.stack([check_transition(each) for each in matrices.expand(wanted, 2, 2)])


def _are_ones(sums: Tensor) -> bool:
    return bool(((sums - 1).abs() <= _SUM_TOLERANCE).all())


def check_invertible(transition: Float[Tensor, "classes classes"]) -> None:
    """Refuse a matrix without a usable inverse, as a correction that undoes ``T`` needs it."""
    condition = torch.linalg.cond(transition).item()
    if not condition < _LARGEST_CONDITION:
        raise InvalidValueError(
            f"`transition` is singular (condition number {condition:.1e}): the noise it describes "
            "cannot be undone; use ForwardCrossEntropy, which needs no inverse"
        )


def check_number(name: str, value: float, interval: str = "(-∞, ∞)") -> float:
    """Return ``value``, a finite number in an interval such as ``"(0, 1]"`` or ``"[0, ∞)"``."""
    number = float(value)
    low, high = (float(end.replace("∞", "inf")) for end in interval[1:-1].split(","))
    is_high_enough = number >= low if interval[0] == "[" else number > low
    is_low_enough = number <= high if interval[-1] == "]" else number < high
    if not (is_high_enough and is_low_enough):
        wanted = f"lie in {interval}" if interval != "(-∞, ∞)" else "be a finite number"
        raise InvalidValueError(f"`{name}` must {wanted}, got {value!r}")
    return number


def check_mean_loss(loss: Tensor) -> None:
    """Refuse losses per example, where their mean is expected."""
    if loss.ndim != 0:
        raise InvalidValueError(
            f"observe takes the mean loss, one number, got a tensor of shape {tuple(loss.shape)}"
        )


def best_precision(device: torch.device) -> torch.dtype:
    """Return the most precise type that the device has."""
    return torch.float32 if device.type == "mps" else torch.float64
