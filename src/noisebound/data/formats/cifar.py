"""The formats of CIFAR-10 and CIFAR-100: binary records, and pickles, which are never executed.

A binary record is one byte for the label (CIFAR-100: the coarse label, then the fine one) and 3,072
bytes for the pixels: the red, the green and the blue plane, each row by row. The pickles hold the
same bytes as arrays.
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
    """The training or the test images and their labels.

    Args:
        images: ``[n, 3, 32, 32]``
        labels: one array per kind of label: fine, or coarse and fine
    """

    images: NDArray[np.uint8]
    labels: tuple[NDArray[np.int64], ...]


def read_binary(files: Files, names: Sequence[str], num_classes: Sequence[int]) -> CifarPart:
    """Return the records of several binary files, one file after the other.

    Args:
        files: where the files are
        names: names of the files
        num_classes: number of classes of each kind of label
    """
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
    """Return the batches of several pickles, one file after the other.

    Args:
        files: where the files are
        names: names of the files
        keys: under which key a pickle has each kind of label
        num_classes: number of classes of each kind of label
    """
    images, labels = [], []
    for name in names:
        where = files.where(name)
        batch = parse_pickle(files.read(name), where)
        images.append(_pixels(batch.get("data"), where))
        labels.append([_labels(batch.get(key), key, where) for key in keys])
        for key, column, count in zip(keys, labels[-1], num_classes, strict=True):
            check_label_range(column, count, where)
            if len(column) != len(images[-1]):
                raise DataError(f"{where} has {len(images[-1])} images, {len(column)} {key}")
    return CifarPart(
        images=np.concatenate(images).reshape(-1, 3, 32, 32),
        labels=tuple(np.concatenate(column) for column in zip(*labels, strict=True)),
    )


def read_name_lines(files: Files, name: str, num_classes: int) -> tuple[str, ...]:
    """Return the class names of a text file with one name per line."""
    lines = files.read(name).decode("utf-8", errors="replace").split("\n")
    return _checked_names(
        [line.strip() for line in lines if line.strip()], num_classes, files, name
    )


def read_name_pickle(files: Files, name: str, key: str, num_classes: int) -> tuple[str, ...]:
    """Return the class names under ``key`` of the pickle with the release's metadata."""
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
