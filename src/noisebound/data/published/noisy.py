"""Data sets with labels that people got wrong: CIFAR-N, Animals-10N and NoisyAG-News.

CIFAR-N's labels are numpy arrays in a file of ``torch.save``. Animals-10N has folders ``training``
and ``testing`` of images named ``LABEL_*.jpg``; about 8 % of the training labels are wrong.
NoisyAG-News has ``train.csv`` and ``test.csv`` with the columns ``label``, ``gt`` (the truth) and
``text``; about a fifth of the training labels are wrong. Test labels are clean in all of them.
"""

import codecs
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from noisebound.data.column_types import check_named
from noisebound.data.files import Files, as_data_error, check_zip
from noisebound.data.labels import check_label_range
from noisebound.data.published.photos import decoded, read_cifar
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.splits import Splits

Labels = NDArray[np.int64]

_RECONSTRUCT = cast(Callable[..., Any], np.empty(0).__reduce__()[0])
_NUMPY_GLOBALS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    np.ndarray,
    np.dtype,
    np.dtypes.Int64DType,
    np.dtypes.Float64DType,
    codecs.encode,
    _RECONSTRUCT,
    # The published files have the name of numpy's module from before numpy 2.
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
]


def read_human_labels(
    files: Files, *, name: str, key: str, num_classes: int
) -> tuple[Labels, Labels]:
    """Return the labels of CIFAR's training images: by people, under ``key``, and the true ones."""
    where, found = files.where(name), []
    arrays = _saved_arrays(files.read(name), where)
    for column in (key, "clean_label"):
        labels = arrays.get(column)
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise DataError(f"{where} must hold a vector of whole numbers {column!r}")
        found.append(labels.astype(np.int64))
        check_label_range(found[-1], num_classes, where)
    noisy, clean = found
    if len(noisy) != len(clean):
        raise DataError(f"{where} has {len(noisy)} labels {key!r}, {len(clean)} others")
    return noisy, clean


def _saved_arrays(content: bytes, where: str) -> dict[str, object]:
    """Return the arrays in a file of ``torch.save``; no code in it is run."""
    import torch

    with as_data_error(where):
        check_zip(io.BytesIO(content), where, len(content))
        try:
            with torch.serialization.safe_globals(_NUMPY_GLOBALS):
                arrays = torch.load(io.BytesIO(content), weights_only=True)
        except UnpicklingError as error:  # whose message suggests to run the code
            raise DataError(
                f"{where} is refused: it holds more than arrays of numbers; fetch it again"
            ) from error
    return arrays if isinstance(arrays, dict) else {}


def read_cifar_n(files: Files, labels: Files, *, classes: int, key: str) -> "Splits":
    """Return CIFAR with one kind of its labels by people; the true labels are kept."""
    import torch

    splits, name = read_cifar(files, classes), f"CIFAR-{classes}_human.pt"
    source = labels.where(name)
    noisy, clean = read_human_labels(labels, name=name, key=key, num_classes=classes)
    if not torch.equal(torch.from_numpy(clean), splits.train.labels):
        raise DataError(
            f"{source} belongs to other images than those in {splits.source}, or to the same "
            "images in another order: the true labels differ"
        )
    train = splits.train.with_labels(torch.from_numpy(noisy))
    return replace(splits, train=train, source=f"{splits.source}, labels from {source}")


_ANIMALS = (
    "cat", "lynx", "wolf", "coyote", "cheetah",
    "jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig",
)  # fmt: skip


def read_animals10n(files: Files) -> "Splits":
    """Return training and test examples from the two folders, at any depth of the release."""
    return decoded(files, _ANIMALS, _labeled(files, "training"), _labeled(files, "testing"))


def _labeled(files: Files, part: str) -> list[tuple[str, int]]:
    labeled = []
    for name in files.names():
        path = PurePosixPath(name)
        if path.parent.name == part and path.suffix.lower() == ".jpg":
            match = re.match(r"(\d{1,2})_", path.name)
            if match is None:
                raise DataError(f"{files.where(name)}: the name must begin with its label and '_'")
            labeled.append((name, int(match[1])))
    if not labeled:
        raise DataError(f"{files.where()} has no folder {part!r} with .jpg files in it")
    labels = np.array([label for _, label in labeled])
    check_label_range(labels, len(_ANIMALS), f"{files.where()}, folder {part!r}")
    return labeled


AG_NEWS_CLASSES = ("World", "Sports", "Business", "Sci/Tech")
_LABEL, _TRUTH, _TEXT = "label", "gt", "text"


def read_noisy_ag_news(files: Files) -> "Splits":
    """Return training examples with the workers' labels, and test examples with true ones.

    The texts are encoded later, or embedded by a backbone.
    """
    from noisebound.data.dataset import Dataset
    from noisebound.data.splits import Splits
    from noisebound.data.table_encoder import TableEncoder

    texts, noisy, true = _read_texts(files, "train.csv", _LABEL, _TRUTH)
    test_texts, test_true = _read_texts(files, "test.csv", _TRUTH)
    encoder = TableEncoder.fit(texts, {_TEXT: "text"})
    return Splits(
        "noisy-ag-news",
        Dataset(encoder.transform(texts), noisy, AG_NEWS_CLASSES, true),
        Dataset(encoder.transform(test_texts), test_true, AG_NEWS_CLASSES),
        source=files.where(),
        notes=encoder.notes,
        encoder=encoder,
        frame=texts,
        test_frame=test_texts,
    )


def _read_texts(files: Files, name: str, *columns: str) -> list[Any]:
    import torch

    where = files.where(name)
    with as_data_error(where):
        frame = pl.read_csv(io.BytesIO(files.read(name)))
    check_named(frame.columns, (*columns, _TEXT), where)
    parts: list[Any] = [frame.select(_TEXT)]
    for column in columns:
        labels = frame[column].cast(pl.Int64, strict=False)
        if labels.null_count():
            raise DataError(f"{where}, column {column!r}: labels must be whole numbers")
        indices = labels.to_numpy(writable=True)
        check_label_range(indices, len(AG_NEWS_CLASSES), f"{where}, column {column!r}")
        parts.append(torch.from_numpy(indices))
    return parts
