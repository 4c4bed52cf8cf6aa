"""One reader for every kind of data: a known name, a path to the user's files, data in memory."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import polars as pl
from torch import Tensor

from noisebound.data.archives import Folder
from noisebound.data.arrays import (
    dataset_from_arrays,
    inputs_from_array,
    read_arrays,
    read_inputs,
)
from noisebound.data.class_folders import is_image_file, read_image_folder, unlabeled_names
from noisebound.data.column_types import did_you_mean
from noisebound.data.dataset import Dataset, EmbeddedBy, Splits
from noisebound.data.embeddings import holds_embeddings, read_embeddings
from noisebound.data.options import ReadingOptions, validated, with_options
from noisebound.data.published import DATASETS, find_published
from noisebound.data.published.mnist import holds_idx, read_idx_folder
from noisebound.data.published.releases import Published, find_or_download
from noisebound.data.rows import Rows
from noisebound.data.table_files import TableFile, as_table, is_frame, is_table, read_table_file
from noisebound.data.tables import frame_splits, read_table
from noisebound.data.texts import (
    as_texts,
    has_more_texts,
    holds_texts,
    is_text_file,
    read_text_folder,
    read_unlabeled_texts,
    text_splits,
    texts_frame,
)
from noisebound.errors import DataError

Source: TypeAlias = "str | Path | Dataset | Splits | tuple[Any, Any] | Any"
"""A known name, a path, a data set, a data frame, or a pair of inputs and labels."""

_OF_LABELS = ("map_labels", "merge_labels", "skip_bad")
_OF_TABLES = ("target", "text", "exclude", "id", "types", "test", "encoding", *_OF_LABELS)


@with_options(ReadingOptions)
def load(source: Source, **options: Any) -> Splits:
    """Return a data set as tensors.

    Args:
        source: a name that ``noisebound data list`` shows; or a folder of images or of .txt files
            (one folder per class), of IDX files or of embeddings, a CSV, TSV, JSONL, Parquet,
            Excel, npz or npy file; or, in memory, a `Dataset`, a data frame of polars or pandas, or
            a pair of inputs (or texts) and labels. A name wins over a path with the same spelling:
            write ``./mnist`` for the path
        options: the fields of `ReadingOptions`, such as ``target="species"``

    Raises:
        DataError: the data is missing or damaged; the message says what to do

    Example:
        >>> digits = load("digits")
        >>> digits.train.inputs.shape, digits.train.inputs.dtype
        (torch.Size([1257, 1, 8, 8]), torch.uint8)
    """
    return read(source, validated(ReadingOptions, options)).encoded(weigh=False)


@dataclass(frozen=True, eq=False)
class Unlabeled:
    """Examples without labels; exactly one of ``images``, ``frame`` and ``inputs`` is set.

    Args:
        names: the file or the position of each example
        source: the place that the data came from
        images: image files, and the names of the images among them
        frame: rows of a table; texts without a table have the one column `TEXT_COLUMN`
        inputs: images or features
        embedded_by: the backbone that made ``inputs``, if one did
    """

    names: list[str] | list[int]
    source: str
    images: tuple[Folder, list[str]] | None = None
    frame: pl.LazyFrame | None = None
    inputs: Tensor | Rows | None = None
    embedded_by: EmbeddedBy | None = None


@overload
def read(
    source: Source, options: ReadingOptions | None = None, *, labeled: Literal[True] = True
) -> Splits: ...
@overload
def read(
    source: Source,
    options: ReadingOptions | None = None,
    *,
    labeled: Literal[False],
    raw_columns: Collection[str] = (),
) -> Unlabeled: ...
def read(
    source: Source,
    options: ReadingOptions | None = None,
    *,
    labeled: bool = True,
    raw_columns: Collection[str] = (),
) -> Splits | Unlabeled:
    """Return data as it was read: texts are not encoded, unlabeled images are not decoded.

    Args:
        source: what `load` takes; without labels also one image or .txt file, a list of texts, or
            an array
        options: how to read it
        labeled: False for data to predict or embed; a data set then gives its test examples
        raw_columns: for unlabeled tables, the columns to read as text even if they are all digits
    """
    options = options or ReadingOptions()
    if not labeled:
        return _unlabeled(source, options, raw_columns)
    if not isinstance(source, str | Path):
        return _from_memory(source, options)
    published = find_published(source)
    if published is not None:
        options.refuse_all_but("data_dir", what="a published data set")
        return load_published(published, options.data_dir)
    return _from_path(_existing(source), options)


class DataOrigin(ReadingOptions):
    """The arguments that loaded a data set, kept so that it can be loaded again.

    Attributes:
        data: a known name or a path; None for data that was in memory only
        backbone: the name of the backbone that embedded the data, if one did
    """

    data: str | None
    backbone: str | None = None

    def read(self) -> Splits:
        """Return the data with texts that are not encoded, as `read` gives it."""
        if self.data is None:
            raise DataError("the data was in memory and is not kept: pass the same `data` again")
        return read(self.data, self.options)

    def load(self) -> Splits:
        """Return the data as `load` gives it."""
        return self.read().encoded(weigh=False)

    @property
    def options(self) -> ReadingOptions:
        """How the data is read."""
        return ReadingOptions(**self.model_dump(exclude={"data", "backbone"}))

    def resolved(self) -> "DataOrigin":
        """Return the same with absolute paths, which mean the same from any folder."""
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
    read = [part.read(each.open()) for part, each in zip(published.parts, found, strict=True)]
    splits = replace(published.assemble(*read), name=published.name)
    counts = (len(splits.train), len(splits.test) if splits.test else 0)
    if counts not in published.counts:
        expected = " or ".join(f"{train} and {test}" for train, test in published.counts)
        raise DataError(
            f"{splits.source} has {counts[0]} training and {counts[1]} test examples, but "
            f"{published.name} as published has {expected}: it is incomplete or something else; "
            "to use it all the same, load it by its path"
        )
    return splits


def image_folder(source: Source) -> Folder | None:
    """Return the folder, listed once, if the source is a folder of images."""
    if not isinstance(source, str | Path) or find_published(source) or not Path(source).is_dir():
        return None
    folder = Folder(Path(source))
    is_other = holds_idx(folder) or holds_embeddings(folder.path) or holds_texts(folder)
    return None if is_other else folder


def _from_memory(data: Any, options: ReadingOptions) -> Splits:
    if is_frame(data):
        options.refuse_all_but(*_OF_TABLES, what="data in memory")
        return frame_splits(as_table(data), options, name="data frame", source="the data frame")
    is_pair = isinstance(data, tuple) and len(data) == 2
    if is_pair and as_texts(data[0]) is not None:
        options.refuse_all_but(*_OF_LABELS, what="texts in memory")
        return text_splits(data[0], data[1], options)
    options.refuse_all_but(what="arrays")
    if isinstance(data, Splits):
        return data
    if isinstance(data, Dataset):
        return Splits("data set", data, None, source="memory")
    if is_pair:
        return Splits("arrays", dataset_from_arrays(*data), None, source="memory")
    raise DataError(
        "expected the name of a data set, a path, a data frame, a Dataset, or a pair (inputs, "
        f"labels); got {type(data).__name__}"
    )


def _from_path(path: Path, options: ReadingOptions) -> Splits:
    if path.is_dir():
        return _from_folder(Folder(path), options)
    if is_table(path):
        options.refuse_all_but("data_dir", *_OF_TABLES, what="a table")
        return read_table(path, options)
    options.refuse_all_but("data_dir", "target", "skip_bad", what="a file of arrays")
    train, test = read_arrays(path, options.target)
    data = dataset_from_arrays(*train)
    test_data = dataset_from_arrays(*test, class_names=data.class_names) if test else None
    return Splits(path.name, data, test_data, source=str(path))


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
    options.refuse_all_but("data_dir", "image_size", "skip_bad", what="a folder of images")
    return read_image_folder(folder, options)


def _unlabeled(data: Any, options: ReadingOptions, raw_columns: Collection[str]) -> Unlabeled:
    published = find_published(data)
    if published is not None:
        data = load_published(published, options.data_dir)
    if isinstance(data, str | Path):
        return _unlabeled_path(_existing(data), options, raw_columns)
    if is_frame(data):
        return _of_frame(as_table(data).lazy(), "the data frame")
    if as_texts(data) is not None:
        return _of_frame(texts_frame(data).lazy(), "the list of texts")
    if isinstance(data, Splits):
        examples, frame = data.to_predict
        if frame is not None:
            return _of_frame(frame, data.name)
        return _of_inputs(examples.rows, data.name, data.embedded_by)
    if isinstance(data, Dataset):
        return _of_inputs(data.rows, "the data set")
    return _of_inputs(inputs_from_array(data), "the array")


def _unlabeled_path(path: Path, options: ReadingOptions, raw_columns: Collection[str]) -> Unlabeled:
    if holds_embeddings(path):
        splits = read_embeddings(path)
        found = _of_inputs(splits.to_predict[0].rows, str(path), splits.embedded_by)
        is_named = splits.test is None and splits.train_names is not None
        return replace(found, names=list(splits.train_names or ())) if is_named else found
    if is_text_file(path) or (path.is_dir() and has_more_texts(Folder(path))):
        names, frame = read_unlabeled_texts(path, options)
        return Unlabeled(names, str(path), frame=frame.lazy())
    if path.is_dir() or is_image_file(path):
        files, names = unlabeled_names(path)
        return Unlabeled(names, str(path), images=(files, names))
    if is_table(path):
        return _of_frame(read_table_file(path, options, raw_columns), str(path))
    return _of_inputs(inputs_from_array(read_inputs(path)), str(path))


def _of_frame(table: TableFile | pl.LazyFrame, source: str) -> Unlabeled:
    table = table if isinstance(table, TableFile) else TableFile(table)
    count = table.frame.select(pl.len()).collect().item()
    return Unlabeled(table.positions(count), source, frame=table.frame)


def _of_inputs(
    inputs: Tensor | Rows, source: str, embedded_by: EmbeddedBy | None = None
) -> Unlabeled:
    return Unlabeled(list(range(len(inputs))), source, inputs=inputs, embedded_by=embedded_by)


def _existing(source: str | Path) -> Path:
    with suppress(OSError):  # such as a name that is too long
        if Path(source).exists():
            return Path(source)
    raise DataError(
        f"{str(source)!r} is neither a file or folder nor a known data set"
        f"{did_you_mean(str(source), DATASETS)}; known are {', '.join(DATASETS)}"
    )
