"""IDX, the format of MNIST and of data sets like it.

A file is two zero bytes, one byte for the type (8: unsigned byte), one byte for the number of
dimensions, the dimensions as big-endian 32-bit integers, and the values row by row.
"""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from noisebound.data.formats.archives import Files, gunzip
from noisebound.data.labels import check_label_range
from noisebound.errors import DataError

_UNSIGNED_BYTE = 0x08
_MOST_DIMENSIONS = 32  # that every version of numpy can hold; images have 3


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array in an uncompressed IDX file of unsigned bytes; messages call it ``name``."""
    if len(content) < 4:
        raise DataError(f"{name} is truncated: {len(content)} bytes do not hold an IDX header")
    zeros, kind, dimensions = struct.unpack(">HBB", content[:4])
    if zeros != 0 or kind != _UNSIGNED_BYTE:
        raise DataError(
            f"{name} is not an IDX file of unsigned bytes: it begins with {content[:4].hex()}, "
            "expected 0000 08 and the number of dimensions"
        )
    if dimensions > _MOST_DIMENSIONS:
        raise DataError(
            f"{name} claims to have {dimensions} dimensions, expected 3 for images and 1 for "
            "labels: it is damaged or of another kind; fetch it again"
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{name} is truncated: its header should list {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = math.prod(shape)
    if len(content) - start != expected:
        raise DataError(
            f"{name} holds {len(content) - start} values, its header {list(shape)} says "
            f"{expected}: it is truncated or damaged; fetch it again"
        )
    if math.prod(max(size, 1) for size in shape) > np.iinfo(np.intp).max:
        raise DataError(f"{name} has a header of impossible dimensions, {list(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_idx(files: Files, name: str) -> NDArray[np.uint8]:
    """Return the array in an IDX file, which is compressed by gzip if its name ends with .gz."""
    content, where = files.read(name), files.where(name)
    return parse_idx(gunzip(content, where) if name.endswith(".gz") else content, where)


def read_idx_pair(
    files: Files, images: str, labels: str, *, num_classes: int, first_label: int, transposed: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images ``[n, 1, height, width]`` and their class indices from a pair of IDX files.

    Args:
        files: where the files are
        images: name of the file of images
        labels: name of the file of labels
        num_classes: number of classes
        first_label: the label of the first class, whose index is 0
        transposed: True if the file has height and width exchanged, as EMNIST has
    """
    pixels, marks = read_idx(files, images), read_idx(files, labels)
    if pixels.ndim != 3 or marks.ndim != 1:
        raise DataError(
            f"{files.where(images)} and {files.where(labels)} must have 3 dimensions and 1, "
            f"got {pixels.ndim} and {marks.ndim}"
        )
    if len(pixels) != len(marks):
        raise DataError(
            f"{files.where(images)} has {len(pixels)} images but {files.where(labels)} has "
            f"{len(marks)} labels"
        )
    indices = marks.astype(np.int64) - first_label
    check_label_range(indices, num_classes, files.where(labels))
    upright = pixels.transpose(0, 2, 1) if transposed else pixels
    return np.ascontiguousarray(upright)[:, None], indices
