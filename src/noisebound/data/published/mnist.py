"""IDX files: MNIST, FashionMNIST, EMNIST and users' folders; and scikit-learn's digits.

An IDX file is two zero bytes, one byte for the type (8: unsigned byte), one byte for the number of
dimensions, the dimensions as big-endian 32-bit integers, and the values row by row.
"""

import struct
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noisebound.data.files import Files, Folder, Zip, as_data_error, gunzip
from noisebound.data.labels import check_label_range, encode_labels
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.splits import Splits

_IMAGES, _LABELS = "-images-idx3-ubyte", "-labels-idx1-ubyte"


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array in an uncompressed IDX file of unsigned bytes, named in messages."""
    if len(content) >= 4 and content[:3] != b"\0\0\x08":
        raise DataError(
            f"{name} is not an IDX file of unsigned bytes: it begins with {content[:4].hex()}, "
            "expected 0000 08 and the number of dimensions"
        )
    with as_data_error(name):  # a truncated header, or values that do not fit the shape
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def read_idx(files: Files, name: str) -> NDArray[np.uint8]:
    """Return the array in an IDX file, which is compressed by gzip if its name ends with .gz."""
    content, where = files.read(name), files.where(name)
    return parse_idx(gunzip(content, where) if name.endswith(".gz") else content, where)


def read_pairs(
    files: Files,
    train: str,
    test: str | None,
    class_names: tuple[str, ...] = (),
    *,
    is_transposed: bool = False,
) -> "Splits":
    """Return the examples of a file of training images, and of a file of test images.

    The labels are in the files beside them, as indices of ``class_names``; by default, the classes
    are the distinct labels. EMNIST's images are transposed.
    """
    import torch

    from noisebound.data.dataset import Dataset
    from noisebound.data.splits import Splits

    parts, names = [], class_names
    for images in filter(None, (train, test)):
        beside, where = images.replace(_IMAGES, _LABELS), files.where(images)
        pixels, labels = read_idx(files, images), read_idx(files, beside).astype(np.int64)
        if pixels.ndim != 3 or labels.shape != pixels.shape[:1]:
            raise DataError(
                f"{where} and {files.where(beside)} must have 3 dimensions and 1, and one label "
                f"per image; got the shapes {list(pixels.shape)} and {list(labels.shape)}"
            )
        if class_names:
            check_label_range(labels, len(class_names), where)
        else:
            labels, names = encode_labels(labels, names or None)
        upright = pixels.transpose(0, 2, 1) if is_transposed else pixels
        inputs = torch.from_numpy(np.array(upright, order="C"))[:, None]
        parts.append(Dataset(inputs, torch.from_numpy(labels), names))
    return Splits(files.path.name, parts[0], parts[1] if test else None, source=files.where())


def holds_idx(folder: Folder) -> bool:
    """True if the folder has IDX images directly in it."""
    return bool(_images_in(folder))


def _images_in(folder: Folder, *ends: str) -> list[str]:
    """Return the files of images whose names have one of these words before the type."""
    names = [name for name in folder.names() if _IMAGES in name and "/" not in name]
    return [name for name in names if name.partition(_IMAGES)[0].endswith(ends or "")]


def read_idx_folder(folder: Folder) -> "Splits":
    """Return training examples, and test examples if there are any.

    The images are in ``*train-images-idx3-ubyte`` and in ``*test-images-idx3-ubyte`` or
    ``*t10k-images-idx3-ubyte``, with or without ``.gz``; the labels are in the files beside them.
    Files named ``emnist-balanced-*`` are read as EMNIST's: transposed, with its class names.
    """
    train, test = _images_in(folder, "train"), _images_in(folder, "test", "t10k")
    if len(train) != 1 or len(test) > 1:
        raise DataError(
            f"{folder.path} must have one file *train{_IMAGES}[.gz] and at most one "
            f"*test{_IMAGES}[.gz]; it has {_images_in(folder)}"
        )
    is_emnist = train[0].startswith(_EMNIST)
    names = _CHARACTERS if is_emnist else ()
    return read_pairs(folder, train[0], test[0] if test else None, names, is_transposed=is_emnist)


# EMNIST merges small letters with their capitals, except for the last eleven, whose shapes differ.
_CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt")
_EMNIST = "emnist-balanced-"


def read_mnist(files: Files, class_names: Sequence[str]) -> "Splits":
    """Return the examples of MNIST's four files."""
    return read_pairs(files, f"train{_IMAGES}.gz", f"t10k{_IMAGES}.gz", tuple(class_names))


def read_emnist(files: Files) -> "Splits":
    """Return the examples of EMNIST's balanced split."""
    start = f"gzip/{_EMNIST}" if isinstance(files, Zip) else _EMNIST
    train, test = f"{start}train{_IMAGES}.gz", f"{start}test{_IMAGES}.gz"
    return read_pairs(files, train, test, _CHARACTERS, is_transposed=True)


_TRAIN = 1257  # 70 % of the 1,797 images
_SPLIT_SEED = 0  # fixed, so that everyone has the same test examples


def read_digits() -> "Splits":
    """Return the digits with pixels scaled to bytes; 30 % are drawn as test examples."""
    import torch

    from noisebound.data.dataset import Dataset, stratified_indices
    from noisebound.data.splits import Splits

    # `sklearn.datasets.load_digits` reads this file too, after a second of imports.
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    rows = np.loadtxt(Path(spec.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    pixels = np.rint(rows[:, :-1] * (255 / 16)).astype(np.uint8)
    inputs = torch.from_numpy(pixels.reshape(-1, 1, 8, 8))
    labels = torch.from_numpy(rows[:, -1].astype(np.int64))
    names, is_train = tuple("0123456789"), torch.zeros(len(labels), dtype=torch.bool)
    is_train[stratified_indices(labels, _TRAIN, _SPLIT_SEED)] = True
    train, test = (Dataset(inputs[each], labels[each], names) for each in (is_train, ~is_train))
    return Splits("digits", train, test, source="scikit-learn")
