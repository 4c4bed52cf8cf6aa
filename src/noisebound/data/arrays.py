"""Arrays in memory and in ``.npz`` and ``.npy`` files as examples."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noisebound.data.column_types import did_you_mean
from noisebound.data.dataset import Dataset
from noisebound.data.files import as_data_error, check_unpacked
from noisebound.data.frames import as_table, is_frame
from noisebound.data.labels import encode_labels
from noisebound.data.multi_label import PRESENCE, matrix_in_memory
from noisebound.data.splits import Splits
from noisebound.data.votes import check_votes, is_matrix, majority_vote, note_on_votes, of_matrix
from noisebound.errors import DataError

_CHANNELS = (1, 3, 4)
_NUMBERS_AT_ONCE = 2**20  # in one block of a pass over an array


def arrays_as_splits(
    inputs: Any,
    labels: Any,
    *,
    name: str,
    source: str,
    test: "Pair | None" = None,
    label_names: Sequence[str] = (),
) -> Splits:
    """Return arrays, and those of a test set, as a data set with notes on what was read.

    ``label_names`` has the names of several labels at once, of which there is a matrix.
    """
    are_votes = test is not None and not label_names and _is_one_column(test[1])
    train, notes = _with_notes(inputs, labels, label_names=label_names, are_votes=are_votes)
    known = None if train.label_names else train.class_names
    part = None if test is None else _with_notes(*test, known, train.label_names)[0]
    return Splits(name, train, part, source=source, notes=notes)


def dataset_from_arrays(
    inputs: Any, labels: Any, class_names: Sequence[str] | None = None
) -> Dataset:
    """Return a data set made from arrays; labels may be numbers or text.

    Args:
        inputs: features ``[n, features]``; or images ``[n, height, width]``, with channels last
            (1, 3 or 4 of them) or first. Whole numbers from 0 to 255 are kept as uint8 where they
            are images; everything else becomes float32. An array of that type already is not
            copied.
        labels: one per row; or several, ``[n, annotators]`` with None, NaN or -1 where an annotator
            gave none, as an array or as a data frame whose columns name the annotators
        class_names: the classes in order; by default the sorted distinct labels

    Example:
        >>> data = dataset_from_arrays([[0.5, 1.0], [1.5, 2.0]], ["no", "yes"])
        >>> data.labels, data.class_names
        (tensor([0, 1]), ('no', 'yes'))
    """
    return _with_notes(inputs, labels, class_names)[0]


def _with_notes(
    inputs: Any,
    labels: Any,
    class_names: Sequence[str] | None = None,
    label_names: Sequence[str] = (),
    *,
    are_votes: bool = False,
) -> tuple[Dataset, tuple[str, ...]]:
    matrix = None if class_names or are_votes else matrix_in_memory(labels, label_names)
    if matrix is not None:
        rows = inputs_from_array(inputs)
        if len(rows) != len(matrix.values):
            raise DataError(f"{len(rows)} inputs but {len(matrix.values)} rows of labels")
        labels = torch.zeros(len(rows), dtype=torch.int64)
        values, names = matrix.values, matrix.names
        data = Dataset(rows, labels, PRESENCE, label_matrix=values, label_names=names)
        return data, matrix.notes
    array, annotators, votes, notes = _as_array(inputs), tuple[str, ...](), None, tuple[str, ...]()
    if is_frame(labels):
        frame = as_table(labels)
        labels, annotators = frame.to_numpy(), tuple(frame.columns)
    labels = _without_graph(labels)
    if is_matrix(labels):
        votes, names, notes = of_matrix(labels, class_names)
        columns = annotators or [str(place + 1) for place in range(votes.shape[1])]
        check_votes(votes, columns, "the labels")
        indices = majority_vote(votes, len(names), are_named=bool(annotators))
        notes += (note_on_votes(votes, columns),)
    else:
        found, names = encode_labels(labels, class_names)
        indices = torch.from_numpy(found)
    if len(array) != len(indices):
        raise DataError(f"{len(array)} inputs but {len(indices)} labels: they must be as many")
    if len(array) == 0:
        raise DataError("there are no examples")
    if len(names) < 2:
        raise DataError(f"all labels are {names[0]!r}: a classifier needs at least two classes")
    return Dataset(_as_inputs(array), indices, names, votes=votes, annotators=annotators), notes


def _is_one_column(labels: Any) -> bool:
    """True for one label per row, so that a matrix to train with holds votes of annotators."""
    shape = labels.shape if hasattr(labels, "shape") else np.asarray(labels, object).shape
    return len(shape) == 1 or shape[1:] == (1,)


def inputs_from_array(inputs: Any) -> Tensor:
    """Return inputs alone, in the form that `dataset_from_arrays` gives them."""
    return _as_inputs(_as_array(inputs))


def _as_array(inputs: Any) -> NDArray[Any]:
    try:
        array = np.asarray(_without_graph(inputs))
    except ValueError as error:  # shapes differ
        raise DataError(
            "all examples must have one shape, and these have several: bring images to one size, "
            "or give them as files, by their folder or to Embedder by their paths; give each row "
            "equally many numbers"
        ) from error
    if array.shape == (0,):
        raise DataError("there are no examples: give at least one")
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"inputs must be numbers, got {type(inputs).__name__} of {array.dtype}: make a list of "
            "an iterator, give images by the path of their folder, and save a table with text "
            "columns as CSV or Parquet"
        )
    if array.ndim < 2:
        raise DataError(f"inputs must have at least two dimensions, got shape {array.shape}")
    unusable = _count_unusable(array) if array.dtype.kind == "f" else 0
    if unusable:
        raise DataError(
            f"{unusable} values of the inputs are NaN, infinite or too large for float32: fill or "
            "drop them"
        )
    return array


def _count_unusable(array: NDArray[Any]) -> int:
    """Return how many numbers float32 cannot hold, block by block: the array may be on disk."""
    most = np.finfo(np.float32).max
    step = max(1, _NUMBERS_AT_ONCE * len(array) // max(1, array.size))
    blocks = (array[start : start + step] for start in range(0, len(array), step))
    return sum(int((~(np.abs(block) <= most)).sum()) for block in blocks)


def _without_graph(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _as_inputs(array: NDArray[Any]) -> Tensor:
    if array.ndim == 2:
        return _as_tensor(np.ascontiguousarray(array), np.float32)
    if array.size == 0:
        raise DataError(f"images must have a height and a width, got shape {list(array.shape)}")
    images = _channels_first(array)
    is_bytes = images.dtype == np.uint8 or (
        images.dtype.kind in "iu" and images.min() >= 0 and images.max() <= 255
    )
    return _as_tensor(images, np.uint8 if is_bytes else np.float32)


def _as_tensor(array: NDArray[Any], dtype: type[np.generic]) -> Tensor:
    """Return an array as a tensor; it is copied only if its type, order or lock requires it."""
    is_usable = array.flags.writeable and min(array.strides) >= 0
    return torch.from_numpy(array.astype(dtype, copy=not is_usable))


def _channels_first(images: NDArray[Any]) -> NDArray[Any]:
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4:
        is_last, is_first = images.shape[3] in _CHANNELS, images.shape[1] in _CHANNELS
        if is_last != is_first:
            return images.transpose(0, 3, 1, 2) if is_last else images
    raise DataError(
        "images must have shape [n, height, width], or four dimensions of which either the last "
        f"or the second counts 1, 3 or 4 channels; got {list(images.shape)}"
    )


# Names of inputs and labels, in the order of preference; the last two are Keras's and MedMNIST's.
_TRAIN_KEYS = (
    ("X", "y"), ("x", "y"), ("inputs", "labels"), ("images", "labels"), ("data", "labels"),
    ("data", "target"), ("X_train", "y_train"), ("x_train", "y_train"),
    ("train_images", "train_labels"),
)  # fmt: skip
_TEST_KEYS = (("X_test", "y_test"), ("x_test", "y_test"), ("test_images", "test_labels"))

Pair = tuple[NDArray[Any], NDArray[Any]]


def read_arrays(path: Path, target: str | None) -> tuple[Pair, Pair | None]:
    """Return inputs and labels, and those of the test set if an ``.npz`` file has one.

    ``target`` is the array of labels in it; for ``.npy``, the path of their file, or its name if it
    lies beside the inputs.
    """
    if path.suffix.lower() == ".npy" and target is None:
        raise DataError(
            f"{path} holds only inputs: give the file of labels as `target`, such as y.npy"
        )
    with _opened(path) as arrays:
        if path.suffix.lower() == ".npy":
            labels = Path(str(target))
            return (arrays["X"], _load(labels if labels.exists() else path.parent / labels)), None
        if target is not None:
            return _pair_with(arrays, target, path), None
        pairs = [
            next(((arrays[x], arrays[y]) for x, y in keys if x in arrays and y in arrays), None)
            for keys in (_TRAIN_KEYS, _TEST_KEYS)
        ]
        if pairs[0] is not None:
            return pairs[0], pairs[1]
        raise DataError(
            f"{path} has the arrays {sorted(arrays)}; expected X and y, or another usual pair of "
            "names: give the name of the labels as `target`"
        )


def read_inputs(path: Path) -> NDArray[Any]:
    """Return the inputs of a ``.npy`` or ``.npz`` file, without labels."""
    with _opened(path) as arrays:
        usual = [inputs for inputs, _ in (*_TEST_KEYS, *_TRAIN_KEYS) if inputs in arrays]
        if usual or len(arrays) == 1:
            return arrays[usual[0] if usual else next(iter(arrays))]
        raise DataError(
            f"{path} has the arrays {sorted(arrays)}; expected one array, or one named X"
        )


def read_arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a ``.npz`` file by name, or the one of a ``.npy`` file."""
    with _opened(path) as arrays:
        return {name: arrays[name] for name in arrays}


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


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the arrays of an ``.npz`` file, each read on access, or that of ``.npy`` as X."""
    kind = path.suffix.lower()
    if kind == ".npy":
        yield {"X": _load(path)}
        return
    if kind != ".npz":
        raise DataError(
            f"{path} cannot be read: expected an image or a .txt file, a folder of them (to train, "
            "one folder per class), or a .csv, .tsv, .jsonl, .parquet, .xlsx, .npz or .npy file"
        )
    with (
        _reading(path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        sizes = [member.file_size for member in archive.zip.infolist()]
        check_unpacked(str(path), path.stat().st_size, sum(sizes))
        yield archive


def _load(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file; changes to it stay in memory."""
    with _reading(path):
        return np.lib.format.open_memmap(path, mode="c")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Explain errors, above all that for Python objects, which would have to be unpickled."""
    with as_data_error(path, remedy="look at the file"):
        try:
            yield
        except ValueError as error:
            if not re.search("Object arrays|Python objects", str(error)):
                raise
            raise DataError(
                f"{path} cannot be read: it holds an array of Python objects, as labels are if "
                "None is among them, and loading objects could run any code; save an array of "
                "numbers or text, without the examples that have no label"
            ) from error
