"""Labels as class indices and class names, and labels that differ only in spelling."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.column_types import listed_names
from noisebound.errors import DataError


def encode_labels(
    values: Sequence[Any] | NDArray[Any], class_names: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the class indices of labels and the class names.

    Args:
        values: one label per example: whole numbers, booleans or text
        class_names: the known classes, such as those of a trained model; whole numbers are then
            class indices, unless a class has a number for a name. By default, the distinct labels,
            sorted

    Example:
        >>> encode_labels(["dog", "cat", "dog"])
        (array([1, 0, 1]), ('cat', 'dog'))
        >>> encode_labels([10, 9, 10])
        (array([1, 0, 1]), ('9', '10'))
    """
    array = _as_label_array(values)
    if class_names is not None:
        if len(set(class_names)) != len(class_names):
            raise DataError(f"`class_names` must be distinct, got {_shortened(class_names)}")
        has_numbers = any(name.strip().lstrip("-").isdigit() for name in class_names)
        if array.dtype.kind in "iu" and not has_numbers:
            indices = array.astype(np.int64)
            check_label_range(indices, len(class_names), "labels")
            return indices, tuple(class_names)
    distinct, inverse = np.unique(array, return_inverse=True)
    if array.dtype.kind == "S":
        distinct = np.char.decode(distinct, errors="backslashreplace")
    found = [str(value) for value in distinct]
    names = tuple(found if class_names is None else class_names)
    if unknown := [name for name in found if name not in names]:
        raise DataError(
            f"unknown labels {_shortened(unknown)}; the classes are {_shortened(names)}"
        )
    index_of = {name: index for index, name in enumerate(names)}
    return np.array([index_of[name] for name in found], np.int64)[inverse], names


def check_label_range(indices: NDArray[np.int64], num_classes: int, name: str) -> None:
    """Raise a `DataError` that begins with ``name`` if a class index is out of range."""
    outside = (indices < 0) | (indices >= num_classes)
    if outside.any():
        first = int(outside.argmax())
        raise DataError(
            f"{name} has labels out of range: expected {num_classes} classes, got class "
            f"{int(indices[first])} at example {first} (counted from 0)"
        )


def _as_label_array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    array = _as_array(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise DataError(f"labels must be one-dimensional, got shape {array.shape}")
    check_none_missing(values)
    if array.dtype == object:
        is_beyond = any(isinstance(value, int) and abs(value) >= 2**63 for value in array)
        array = array.astype(str) if is_beyond else np.array(array.tolist())
        array = array.astype(str) if array.dtype == object else array
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise DataError(f"{(~np.isfinite(array)).sum()} of {len(array)} labels are not finite")
        is_class = (array == np.round(array)) & (np.abs(array) < 2**53)
        if not is_class.all():
            raise DataError(
                f"labels must be classes, got numbers like {array[~is_class][0]:g}; predicting "
                "numbers is regression, which noisebound does not do"
            )
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuUS":
        raise DataError(f"labels must be numbers or text, got {array.dtype}")
    return array


def check_none_missing(values: Any) -> None:
    """Raise a `DataError` if a label is masked, None, NaN or pandas' NA."""
    array = _as_array(values)
    is_masked = isinstance(values, np.ma.MaskedArray)
    missing = int(np.ma.getmaskarray(values).sum()) if is_masked else 0
    if array.dtype == object:
        missing += sum(map(is_missing, array.flat))
    elif array.dtype.kind == "f":
        missing += int(np.isnan(array).sum())
    if missing:
        raise DataError(f"{missing} of {len(array)} labels are missing: drop these examples")


def _as_array(values: Any) -> NDArray[Any]:
    # Arrays of objects, because numpy would turn a NaN among texts into a text.
    return np.asarray(values, object if isinstance(values, list | tuple) else None)


def is_missing(value: object) -> bool:
    """True for None, NaN, and pandas' NA and NaT."""
    is_nan = isinstance(value, float | np.floating) and value != value
    # By name, so that pandas is not imported for those who do not use it.
    return value is None or bool(is_nan) or type(value).__name__ in ("NAType", "NaTType")


def _shortened(names: Sequence[str]) -> str:
    return listed_names([repr(name) for name in names], most=10)


def spellings(counts: Mapping[str, int], usual: Collection[str] = ()) -> list[list[str]]:
    """Return groups of labels that differ only by case and spaces, the usual spelling first.

    This is one of the ``usual`` labels, such as known classes, else the most frequent one without
    spaces around it, if there is one.

    Example:
        >>> spellings({"stay": 5, " stay": 1, "Stay": 2, "go": 3})
        [['stay', 'Stay', ' stay']]
    """

    def rank(label: str) -> tuple[bool, bool, int, str]:
        return label not in usual, label != label.strip(), -counts[label], label

    groups: dict[str, list[str]] = {}
    for label in sorted(counts, key=rank):
        groups.setdefault(" ".join(label.casefold().split()), []).append(label)
    return [group for group in groups.values() if len(group) > 1]
