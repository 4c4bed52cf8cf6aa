"""CIFAR-10 and CIFAR-100, the binary release and the Python release (pickles, never executed).

A binary record is the label byte (CIFAR-100: coarse, then fine) and 3,072 pixel bytes: the red,
the green and the blue plane, each row by row. The pickles hold the same bytes as arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.formats.archives import Files
from noisebound.data.formats.safe_pickle import parse_pickle
from noisebound.data.labels import check_label_range
from noisebound.errors import DataError

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, eq=False)
class CifarPart:
    """Images ``[n, 3, 32, 32]`` and one array of labels for each kind that the release has."""

    images: NDArray[np.uint8]
    labels: tuple[NDArray[np.int64], ...]


def read_binary(files: Files, names: Sequence[str], num_classes: Sequence[int]) -> CifarPart:
    """Records of several binary files, one after the other."""
    width = len(num_classes) + _PIXELS
    parts = []
    for name in names:
        content, where = files.read(name), files.where(name)
        if not content or len(content) % width:
            raise DataError(
                f"{where} has {len(content)} bytes, not a whole number of records of {width}: it "
                "is truncated or damaged; fetch it again"
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, width)
        labels = records[:, : len(num_classes)].astype(np.int64)
        for kind, count in enumerate(num_classes):
            check_label_range(labels[:, kind], count, where)
        parts.append((records[:, len(num_classes) :], labels))
    labels = np.concatenate([labels for _, labels in parts])
    return CifarPart(
        images=np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32),
        labels=tuple(np.ascontiguousarray(column) for column in labels.T),
    )


def read_pickles(
    files: Files, names: Sequence[str], keys: Sequence[str], num_classes: Sequence[int]
) -> CifarPart:
    """Batches of several pickles; ``keys`` names the lists of labels in them."""
    images, labels = [], []
    for name in names:
        where = files.where(name)
        batch = parse_pickle(files.read(name), where)
        images.append(_pixels(batch.get("data"), where))
        labels.append([_labels(batch.get(key), key, where) for key in keys])
        for key, column, count in zip(keys, labels[-1], num_classes, strict=True):
            check_label_range(column, count, where)
            if len(column) != len(images[-1]):
                raise DataError(f"{where}: {len(images[-1])} images, {len(column)} {key}")
    return CifarPart(
        images=np.concatenate(images).reshape(-1, 3, 32, 32),
        labels=tuple(np.concatenate(column) for column in zip(*labels, strict=True)),
    )


def read_name_lines(files: Files, name: str, num_classes: int) -> tuple[str, ...]:
    """Class names, one a line."""
    lines = files.read(name).decode("utf-8", errors="replace").split("\n")
    return _checked_names(
        [line.strip() for line in lines if line.strip()], num_classes, files, name
    )


def read_name_pickle(files: Files, name: str, key: str, num_classes: int) -> tuple[str, ...]:
    """Class names, out of the pickle with the release's metadata."""
    names = parse_pickle(files.read(name), files.where(name)).get(key)
    if not isinstance(names, list) or not all(isinstance(item, bytes | str) for item in names):
        raise DataError(f"{files.where(name)} must hold a list of names {key!r}")
    texts = [
        item.decode("utf-8", errors="replace") if isinstance(item, bytes) else item
        for item in names
    ]
    return _checked_names(texts, num_classes, files, name)


def _checked_names(names: list[str], num_classes: int, files: Files, name: str) -> tuple[str, ...]:
    if len(names) != num_classes:
        raise DataError(f"{files.where(name)} must name {num_classes} classes, got {len(names)}")
    return tuple(names)


def _pixels(value: Any, where: str) -> NDArray[np.uint8]:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        raise DataError(f"{where} must hold an array 'data' of unsigned bytes")
    if value.ndim != 2 or value.shape[1] != _PIXELS:
        raise DataError(f"{where}: 'data' must have shape [n, {_PIXELS}], got {list(value.shape)}")
    return value


def _labels(value: Any, key: str, where: str) -> NDArray[np.int64]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise DataError(f"{where} must hold a list of whole numbers {key!r}")
    try:
        return np.array(value, np.int64)
    except OverflowError:
        raise DataError(f"{where} has labels out of range in {key!r}") from None
