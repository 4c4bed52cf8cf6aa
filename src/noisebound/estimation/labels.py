"""What every estimator takes: a row of predictions and an observed class index per example."""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, check_distribution
from noisebound.errors import InvalidTypeError, InvalidValueError

FEWEST_EXAMPLES = 20  # as many groups as the jackknife leaves out in turn


_ROWS_AT_ONCE = 2**14


def check_predictions(probs: ArrayLike, name: str = "probs") -> Float[Tensor, "n classes"]:
    """Return class probabilities on the CPU, checked in blocks and not copied if they are there.

    Single precision stays single, so that predictions of many examples and classes are not doubled.
    """
    predictions = _as_tensor(probs, name, "numbers, a row per example and a column per class")
    if not predictions.is_floating_point() or predictions.dtype in (torch.float16, torch.bfloat16):
        predictions = predictions.double()
    if predictions.ndim != 2 or not len(predictions):
        return check_distribution(predictions, name)
    for rows in torch.split(predictions, _ROWS_AT_ONCE):
        check_distribution(rows, name)
    return predictions


def check_labels(labels: ArrayLike, predictions: Tensor, name: str) -> Int64[Tensor, " n"]:
    """Return the labels on the CPU, or refuse them if they do not fit the predictions.

    Args:
        labels: one class index per example
        predictions: one row per example, one column per class
        name: what to call the predictions in an error
    """
    if predictions.ndim != 2 or predictions.shape[1] < 2:
        raise InvalidValueError(
            f"{name} must have a row for each example and a column for each class, got shape "
            f"{tuple(predictions.shape)}"
        )
    observed = _as_tensor(labels, "labels", "class indices, whole numbers")
    if observed.shape != predictions.shape[:1]:
        raise InvalidValueError(
            f"`labels` must be one per example, {len(predictions)}; got shape "
            f"{tuple(observed.shape)}"
        )
    if observed.is_floating_point() or observed.is_complex() or observed.dtype == torch.bool:
        raise InvalidTypeError(f"labels must be class indices, whole numbers; got {observed.dtype}")
    if len(observed) < FEWEST_EXAMPLES:
        raise InvalidValueError(
            f"at least {FEWEST_EXAMPLES} examples are needed, got {len(observed)}"
        )
    observed = observed.long()
    low, high = int(observed.min()), int(observed.max())
    if low < 0 or high >= predictions.shape[1]:
        raise InvalidValueError(
            f"labels must lie in 0 … {predictions.shape[1] - 1}, got {low} … {high}"
        )
    return observed


def _as_tensor(given: ArrayLike, name: str, wanted: str) -> Tensor:
    """Return arrays, data frames and lists as a tensor on the CPU."""
    if not isinstance(given, Tensor):
        array = np.require(given, requirements="W")  # which torch asks for
        if array.dtype.kind not in "biuf":
            raise InvalidTypeError(f"`{name}` must be {wanted}; got values of type {array.dtype}")
        # Of these torch has no minimum, and little else.
        given = (
            array.astype(np.int64) if array.dtype in (np.uint16, np.uint32, np.uint64) else array
        )
    return torch.as_tensor(given).detach().cpu()
