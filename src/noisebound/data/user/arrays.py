"""``.npz`` and ``.npy`` files; pickles in them are refused.

A ``.npy`` file is mapped into memory, and may be larger than that.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.column_types import did_you_mean
from noisebound.data.limits import check_unpacked
from noisebound.data.reading import reading
from noisebound.errors import DataError

# Names of inputs and labels, in the order of preference; Keras and MedMNIST write the last two.
_TRAIN_KEYS = (
    ("X", "y"), ("x", "y"), ("inputs", "labels"), ("images", "labels"), ("data", "labels"),
    ("data", "target"), ("X_train", "y_train"), ("x_train", "y_train"),
    ("train_images", "train_labels"),
)  # fmt: skip
_TEST_KEYS = (("X_test", "y_test"), ("x_test", "y_test"), ("test_images", "test_labels"))

Pair = tuple[NDArray[Any], NDArray[Any]]


def read_npz(path: Path, target: str | None) -> tuple[Pair, Pair | None]:
    """Return inputs and labels, and those of the test set if the file has one.

    Args:
        path: the ``.npz`` file
        target: name of the array of labels; None to look for the usual names
    """
    with _opened(path) as arrays:
        if target is not None:
            return _pair_with(arrays, target, path), None
        for inputs, labels in _TRAIN_KEYS:
            if inputs in arrays and labels in arrays:
                return (arrays[inputs], arrays[labels]), _test_pair(arrays)
        raise DataError(
            f"{path} has the arrays {sorted(arrays)}; expected X and y, or another usual pair of "
            "names: give the name of the labels as `target`"
        )


def read_npy(path: Path, target: str | None) -> Pair:
    """Return inputs and labels.

    Args:
        path: the ``.npy`` file of inputs
        target: the ``.npy`` file of labels, whose path may be relative to that of the inputs
    """
    if target is None:
        raise DataError(
            f"{path} holds only inputs: give the file of labels as `target`, such as y.npy"
        )
    labels = Path(target) if Path(target).exists() else path.parent / target
    return _load(path), _load(labels)


def read_inputs(path: Path) -> NDArray[Any]:
    """Return the inputs of a ``.npy`` or ``.npz`` file, for a model to predict their labels."""
    if path.suffix.lower() == ".npy":
        return _load(path)
    if path.suffix.lower() != ".npz":
        raise DataError(
            f"{path} is of a kind that is not read: expected an image or a .txt file, a folder of "
            "them, or a .csv, .tsv, .jsonl, .parquet, .xlsx, .npz or .npy file"
        )
    with _opened(path) as arrays:
        usual = [inputs for inputs, _ in (*_TEST_KEYS, *_TRAIN_KEYS) if inputs in arrays]
        if usual:
            return arrays[usual[0]]
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise DataError(
            f"{path} has the arrays {sorted(arrays)}; expected one array, or one named X"
        )


def _pair_with(arrays: Mapping[str, NDArray[Any]], target: str, path: Path) -> Pair:
    if target not in arrays:
        raise DataError(
            f"{path} has no array {target!r}{did_you_mean(target, arrays)}; it has {sorted(arrays)}"
        )
    others = [name for name in arrays if name != target and len(arrays[name].shape) >= 2]
    if len(others) != 1:
        raise DataError(
            f"{path} must have one array of inputs beside {target!r}, got {sorted(others)}"
        )
    return arrays[others[0]], arrays[target]


def _test_pair(arrays: Mapping[str, NDArray[Any]]) -> Pair | None:
    for inputs, labels in _TEST_KEYS:
        if inputs in arrays and labels in arrays:
            return arrays[inputs], arrays[labels]
    return None


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the arrays of an ``.npz`` file, each of which is read when it is asked for."""
    with (
        reading(path, remedy="look at the file"),
        _without_objects(path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        sizes = [member.file_size for member in archive.zip.infolist()]
        check_unpacked(str(path), path.stat().st_size, sum(sizes))
        yield archive


def _load(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file; changes to it stay in memory."""
    with reading(path, remedy="look at the file"), _without_objects(path):
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} must hold one array, got {type(array).__name__}")
    return array


@contextmanager
def _without_objects(path: Path) -> Iterator[None]:
    """Say it clearly if an array holds Python objects, which would have to be unpickled."""
    try:
        yield
    except ValueError as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            raise DataError(
                f"{path} cannot be read: it holds an array of Python objects, as labels are if "
                "None is among them, and loading objects could run any code; save an array of "
                "numbers or text, without the examples that have no label"
            ) from error
        raise
