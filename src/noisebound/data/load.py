"""One reader for every kind of data: a known name, a path to the user's files, data in memory."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from torch import Tensor

from noisebound.data import fifty_one
from noisebound.data.arrays import (
    arrays_as_splits,
    inputs_from_array,
    read_arrays,
    read_inputs,
)
from noisebound.data.column_types import did_you_mean
from noisebound.data.dataset import Dataset
from noisebound.data.embeddings import holds_embeddings, read_embeddings
from noisebound.data.files import Files, Folder
from noisebound.data.folders import (
    IMAGES,
    holds_texts,
    image_splits,
    images_of_table,
    read_text_folder,
    read_texts,
    unlabeled_files,
)
from noisebound.data.frames import (
    as_table,
    as_texts,
    described_by_features,
    is_frame,
    texts_frame,
    train_and_others,
)
from noisebound.data.image_splits import ImageSplits
from noisebound.data.input_columns import ImageColumn, image_column
from noisebound.data.loader import Normalization
from noisebound.data.options import ReadingOptions, validated, with_options
from noisebound.data.published import DATASETS, find_published
from noisebound.data.published.mnist import holds_idx, read_idx_folder
from noisebound.data.published.releases import Published, find_or_download
from noisebound.data.rows import Rows, SparseRows
from noisebound.data.splits import EmbeddedBy, Splits
from noisebound.data.table_files import is_table, read_table_file
from noisebound.data.tables import frame_splits, read_table, text_splits
from noisebound.errors import DataError

Source: TypeAlias = "str | Path | Folder | Dataset | Splits | tuple[Any, Any] | Any"
"""A known name, a path, a listed folder, a data set, a data frame, or a pair (inputs, labels)."""

_OF_LABELS = ("map_labels", "merge_labels", "skip_bad")
_OF_TABLES = (
    *("target", "targets", "item", "annotator", "text", "exclude", "id", "groups", "types", "test"),
    *("encoding", *_OF_LABELS),
)


@with_options(ReadingOptions)
def load(source: Source, **options: Any) -> Splits:
    """Return a data set as tensors.

    Args:
        source: a name that ``noisebound data list`` shows; or a folder of images or of .txt files
            (one folder per class), of IDX files or of embeddings, a CSV, TSV, JSONL, Parquet,
            Excel, npz or npy file; or, in memory, a `Dataset`, a table of polars, pandas or
            pyarrow, a ``Dataset`` or ``DatasetDict`` of Hugging Face, or a pair of inputs (or
            texts) and labels. A name wins over a path with the same spelling: write ``./mnist``
            for the path
        options: the fields of `ReadingOptions`, such as ``target="species"``

    Raises:
        DataError: the data is missing or damaged; the message says what to do

    Example:
        >>> digits = load("digits")
        >>> digits.train.inputs.shape, digits.train.inputs.dtype
        (torch.Size([1257, 1, 8, 8]), torch.uint8)
    """
    return read(source, validated(ReadingOptions, options)).encoded()


@dataclass(frozen=True, eq=False)
class Unlabeled:
    """Examples without labels; exactly one of ``images``, ``frame`` and ``inputs`` is set.

    Texts without a table are a frame with the one column `TEXT_COLUMN`.
    """

    names: list[str] | list[int]  # the file or the position of each example
    source: str  # the place that the data came from
    images: tuple[Files, list[str]] | None = None  # files, and the names of the images among them
    frame: pl.DataFrame | None = None
    inputs: Tensor | Rows | None = None  # images or features
    embedded_by: EmbeddedBy | None = None  # the backbone that made the inputs


def read(source: Source, options: ReadingOptions | None = None) -> Splits:
    """Return what `load` returns, but texts are not encoded yet."""
    options = options or ReadingOptions()
    found = read_undecoded(source, options)
    return found.decoded(options) if isinstance(found, ImageSplits) else found


def read_undecoded(source: Source, options: ReadingOptions) -> Splits:
    """Return the same as `read` of labeled data, but `ImageSplits` for images that are in files."""
    if isinstance(source, Folder):
        return _from_folder(source, options)
    if not isinstance(source, str | Path):
        return _from_memory(source, options)
    published = find_published(source)
    if published is not None:
        options.refuse_all_but("data_dir", what="a published data set")
        return load_published(published, options.data_dir)
    return _from_path(_existing(source), options)


class DataOrigin(ReadingOptions):
    """The arguments that loaded a data set, kept so that it can be loaded again."""

    data: str | None  # a known name or a path; None for data that was in memory only
    backbone: str | None = None  # the name of the backbone that embedded the data, if one did
    label: str | None = None  # the label that was trained, if an example may have several at once

    @property
    def options(self) -> ReadingOptions:
        return ReadingOptions(**self.model_dump(exclude={"data", "backbone", "label"}))

    def resolved(self) -> "DataOrigin":
        is_path = self.data is not None and find_published(self.data) is None
        return self.model_copy(
            update={
                "data": str(Path(str(self.data)).resolve()) if is_path else self.data,
                "data_dir": self.data_dir and self.data_dir.resolve(),
                "test": self.test and self.test.resolve(),
            }
        )


def load_published(published: Published, data_dir: str | Path | None = None) -> Splits:
    """Return a published data set: found or downloaded, verified, read and counted."""
    found = [find_or_download(part, data_dir) for part in published.parts]
    splits: Splits = published.read(*(each.open() for each in found))
    splits = replace(splits, name=published.name)
    counts = (len(splits.train), len(splits.test) if splits.test else 0)
    if counts != published.counts:
        raise DataError(
            f"{splits.source} has {counts[0]} training and {counts[1]} test examples, but "
            f"{published.name} as published has {published.counts[0]} and {published.counts[1]}: "
            "it is incomplete or something else; to use it all the same, load it by its path"
        )
    return splits


def _from_memory(data: Any, options: ReadingOptions) -> Splits:
    data, others = train_and_others(data)
    if is_frame(data):
        frame = as_table(data)
        described = described_by_features(options, data, frame)
        tests = {name: as_table(other) for name, other in others.items()}
        test = next((name for name in tests if _has_labels(tests[name], described)), None)
        found = frame_splits(
            frame,
            described,
            name="data frame",
            source="the data frame",
            test=None if test is None else tests[test],
        )
        _refuse_for_table(found, options, "data in memory")
        unused = ", ".join(name for name in tests if name != test)
        note = f"splits that are not for training or evaluation were left out: {unused}"
        return replace(found, notes=(*found.notes, note)) if unused else found
    is_pair = isinstance(data, tuple) and len(data) == 2
    if is_pair and as_texts(data[0]) is not None:
        options.refuse_all_but("targets", *_OF_LABELS, what="texts in memory")
        return text_splits(data[0], data[1], options)
    if is_pair:
        options.refuse_all_but("targets", what="arrays")
        names = options.targets
        return arrays_as_splits(*data, name="arrays", source="memory", label_names=names)
    options.refuse_all_but(what="a data set in memory")
    if isinstance(data, Splits):
        return data
    if isinstance(data, Dataset):
        return Splits("data set", data, None, source="memory")
    raise DataError(
        "expected the name of a data set, a path, a data frame, a Dataset, or a pair (inputs, "
        f"labels); got {type(data).__name__}"
    )


def _from_path(path: Path, options: ReadingOptions) -> Splits:
    if path.is_dir():
        return _from_folder(Folder(path), options)
    if is_table(path):
        found = read_table(path, options)
        _refuse_for_table(found, options, "a table", "data_dir")
        return found
    options.refuse_all_but("data_dir", "target", "targets", "skip_bad", what="a file of arrays")
    if len(options.target) > 1:
        raise DataError(
            f"{path} must have all labels in one array, [examples] or [examples, annotators]: give "
            f"one name as `target`, got {', '.join(options.target)}"
        )
    train, test = read_arrays(path, next(iter(options.target), None))
    return arrays_as_splits(
        *train, name=path.name, source=str(path), test=test, label_names=options.targets
    )


def _has_labels(frame: pl.DataFrame, options: ReadingOptions) -> bool:
    """True if a table has any label; competitions keep those of their test examples back."""
    names = options.target or options.targets
    columns = [frame[name] for name in names if name in frame.columns]
    return any(column.null_count() < len(column) for column in columns)


def _refuse_for_table(found: Splits, options: ReadingOptions, what: str, *others: str) -> None:
    """Refuse options that do not apply to a table, which may hold images."""
    of_images = ("image_size",) if isinstance(found, ImageSplits) else ()
    options.refuse_all_but(*_OF_TABLES, *of_images, *others, what=what)


def _from_folder(folder: Folder, options: ReadingOptions) -> Splits:
    if holds_embeddings(folder.path):
        options.refuse_all_but("data_dir", "skip_bad", what="a folder of embeddings")
        return read_embeddings(folder.path)
    if holds_idx(folder):
        options.refuse_all_but("data_dir", "skip_bad", what="a folder of IDX files")
        return read_idx_folder(folder)
    if holds_texts(folder):
        options.refuse_all_but("data_dir", "encoding", *_OF_LABELS, what="a folder of texts")
        return read_text_folder(folder, options)
    if fifty_one.is_export(folder):
        options.refuse_all_but("data_dir", "image_size", *_OF_LABELS, what="a FiftyOne export")
        given = options.model_copy(update={"target": ("label",), "id": "example"})
        table, name = fifty_one.table_of_export(folder), folder.path.name
        found = frame_splits(table, given, name=name, source=str(folder.path))
        return replace(found, train_names=tuple(found.ids or ()), folder=folder.path)
    if options.target or options.targets:
        found = images_of_table(folder, options)
        _refuse_for_table(found, options, "a folder of images with a table", "data_dir")
        return found
    options.refuse_all_but("data_dir", "image_size", "skip_bad", what="a folder of images")
    return image_splits(folder)


def read_unlabeled(
    data: Any, options: ReadingOptions | None = None, raw_columns: Collection[str] = ()
) -> Unlabeled:
    """Return data to predict or embed; a data set gives its test examples, images as files.

    It is what `load` takes, or an image, a .txt file, a list of texts, or an array. A table gives
    ``raw_columns`` as text even if they are all digits.
    """
    options = options or ReadingOptions()
    published = find_published(data)
    if published is not None:
        data = load_published(published, options.data_dir)
    if isinstance(data, str | Path):
        return _unlabeled_path(_existing(data), options, raw_columns)
    train, others = train_and_others(data)
    if is_frame(train):
        return _rows("the data frame", as_table(next(iter(others.values()), train)))
    if as_texts(data) is not None:
        return _by_position("the list of texts", frame=texts_frame(data))
    if isinstance(data, Splits):
        examples, frame = data.to_predict
        if frame is not None:
            return _by_position(data.name, frame=frame)
        return _by_position(data.name, inputs=examples.rows, embedded_by=data.embedded_by)
    if isinstance(data, Dataset):
        return _by_position("the data set", inputs=data.rows)
    return _by_position("the array", inputs=inputs_from_array(data))


def _unlabeled_path(path: Path, options: ReadingOptions, raw_columns: Collection[str]) -> Unlabeled:
    if holds_embeddings(path):
        splits = read_embeddings(path)
        rows = splits.to_predict[0].rows
        found = _by_position(str(path), inputs=rows, embedded_by=splits.embedded_by)
        is_named = splits.test is None and splits.train_names is not None
        return replace(found, names=list(splits.train_names or ())) if is_named else found
    if (listed := unlabeled_files(path)) is not None:
        folder, names, kind = listed
        if kind == IMAGES:
            return Unlabeled(names, str(path), images=(folder, names))
        names, texts, _ = read_texts(folder, names, options)
        return Unlabeled(names, str(path), frame=texts_frame(texts))
    if is_table(path):
        return _rows(str(path), read_table_file(path, options.encoding, raw_columns))
    return _by_position(str(path), inputs=inputs_from_array(read_inputs(path)))


def _rows(source: str, frame: pl.DataFrame) -> Unlabeled:
    found, name = _by_position(source, frame=frame), image_column(frame)
    if name is None:
        return found
    files = ImageColumn(frame[name])
    return replace(found, images=(files, files.names()), frame=None)


def _by_position(
    source: str,
    *,
    frame: pl.DataFrame | None = None,
    inputs: Tensor | Rows | None = None,
    embedded_by: EmbeddedBy | None = None,
) -> Unlabeled:
    rows = inputs if frame is None else frame
    assert rows is not None
    return Unlabeled(list(range(len(rows))), source, None, frame, inputs, embedded_by)


def _existing(source: str | Path) -> Path:
    with suppress(OSError):  # such as a name that is too long
        if Path(source).exists():
            return Path(source)
    raise DataError(
        f"{str(source)!r} is neither a file or folder nor a known data set"
        f"{did_you_mean(str(source), DATASETS)}; known are {', '.join(DATASETS)}"
    )


def summarize(splits: Splits) -> dict[str, Any]:
    """Return the summary of a data set, as JSON can hold it.

    The statistics are those of each channel or feature of the training inputs, if they are dense.
    The columns are those of a table that are used, with their types.
    """
    is_sparse = isinstance(splits.train.inputs, SparseRows)
    normalization = Normalization.identity() if is_sparse else Normalization.of(splits.train.rows)
    return {
        "name": splits.name,
        "source": splits.source,
        "classes": len(splits.train.label_names or splits.train.class_names),
        "train": _part_summary(splits.train),
        "test": _part_summary(splits.test) if splits.test else None,
        "mean": normalization.mean,
        "std": normalization.std,
        "columns": {} if splits.encoder is None else splits.encoder.types,
        "notes": splits.with_duplicates_together().notes,
    }


def _part_summary(data: Dataset) -> dict[str, Any]:
    """Return the summary of training or test examples; the shape is that of one example.

    If an example may have several labels, ``class_counts`` has the examples with each of them, and
    ``labels_per_example`` is known. The imbalance is the largest class count divided by the
    smallest, unless that is zero. The noise rate is the share of wrong labels, if the true labels
    are known.
    """
    counts, names, true = data.class_counts(), data.class_names, data.true_labels
    per_example = None
    if data.label_matrix is not None:
        counts, names = (data.label_matrix == 1).sum(0), data.label_names
        per_example = counts.sum().item() / len(data)
    return {
        "examples": len(data),
        "shape": data.input_shape,
        "dtype": str(data.inputs.dtype).removeprefix("torch."),
        "class_counts": dict(zip(names, counts.tolist(), strict=True)),
        "labels_per_example": per_example,
        "imbalance": (counts.max() / counts.min()).item() if counts.min() > 0 else None,
        "noise_rate": None if true is None else (true != data.labels).double().mean().item(),
    }
