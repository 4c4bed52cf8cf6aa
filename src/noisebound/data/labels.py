"""Labels as classes are named, and as indices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.errors import DataError


def encode_labels(
    values: Sequence[Any] | NDArray[Any], class_names: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices of labels that are numbers, truth values or text, and the classes' names.

    Without ``class_names`` the classes are the distinct values, numbers in their order and text in
    the alphabet's; with them (those of a trained model) every value has to be one of them.

    Example:
        >>> encode_labels(["dog", "cat", "dog"])
        (array([1, 0, 1]), ('cat', 'dog'))
        >>> encode_labels([10, 9, 10])
        (array([1, 0, 1]), ('9', '10'))
    """
    array = _as_label_array(values)
    if class_names is None:
        distinct, indices = np.unique(array, return_inverse=True)
        return indices.astype(np.int64), tuple(_name(value) for value in distinct)
    index_of = {name: index for index, name in enumerate(class_names)}
    distinct, inverse = np.unique(array, return_inverse=True)
    unknown = [_name(value) for value in distinct if _name(value) not in index_of]
    if unknown:
        raise DataError(
            f"unknown labels {_shortened(unknown)}; the classes are {_shortened(list(index_of))}"
        )
    lookup = np.array([index_of[_name(value)] for value in distinct], np.int64)
    return lookup[inverse], tuple(class_names)


def check_label_range(indices: NDArray[np.int64], num_classes: int, name: str) -> None:
    """Every index is that of a class."""
    outside = (indices < 0) | (indices >= num_classes)
    if outside.any():
        first = int(outside.argmax())
        raise DataError(
            f"{name} has labels out of range: expected {num_classes} classes, got class "
            f"{int(indices[first])} at example {first} (counted from 0)"
        )


def _as_label_array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise DataError(f"labels must be one-dimensional, got shape {array.shape}")
    if array.dtype == object:
        missing = sum(value is None or value != value for value in array)
        if missing:
            raise DataError(f"{missing} of {len(array)} labels are missing: drop these examples")
        array = np.array(array.tolist())
    if array.dtype == object:
        array = array.astype(str)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise DataError(f"{(~np.isfinite(array)).sum()} of {len(array)} labels are not finite")
        is_class = (array == np.round(array)) & (np.abs(array) < 2**53)
        if not is_class.all():
            raise DataError(
                f"labels must be classes, got numbers like {array[~is_class][0]:g}; to learn "
                "numbers is regression, which noisebound does not do"
            )
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuUS":
        raise DataError(f"labels must be numbers or text, got {array.dtype}")
    return array


def _name(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _shortened(names: list[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
