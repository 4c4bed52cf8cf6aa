"""One door for every kind of data: a known name, a path to the user's files, data in memory."""

from pathlib import Path
from typing import Any, TypeAlias, Unpack

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.finding import find_or_download
from noisebound.data.formats.table_files import is_table
from noisebound.data.frames import as_table, is_frame
from noisebound.data.from_arrays import dataset_from_arrays
from noisebound.data.options import ReadingOptions, ReadingSettings, reading_options
from noisebound.data.published.record import Published
from noisebound.data.registry import DATASETS, find_published
from noisebound.data.user.arrays import read_npy, read_npz
from noisebound.data.user.embeddings_folder import holds_embeddings, read_embeddings
from noisebound.data.user.idx_folder import holds_idx, read_idx_folder
from noisebound.data.user.image_folder import read_image_folder
from noisebound.data.user.tables import frame_splits, read_table
from noisebound.data.user.texts import as_texts, holds_texts, read_text_folder, text_splits
from noisebound.errors import DataError

Source: TypeAlias = "str | Path | Dataset | Splits | tuple[Any, Any] | Any"
"""A known name, a path, a data set, a data frame, or a pair of inputs and labels."""

_OF_TABLES = (
    *("target", "text", "exclude", "id", "types", "test", "encoding", "merge_labels", "skip_bad"),
)


def load(source: Source, **settings: Unpack[ReadingSettings]) -> Splits:
    """Return a data set as tensors.

    Args:
        source: a name that ``noisebound data list`` shows; or a folder of images or of .txt files
            (one folder per class), of IDX files or of embeddings, a CSV, TSV, JSONL, Parquet,
            Excel, npz or npy file; or, in memory, a `Dataset`, a data frame of polars or pandas, or
            a pair of inputs (or texts) and labels. A name wins over a path that reads the same:
            write ``./mnist`` for the path
        settings: the fields of `ReadingOptions`, such as ``target="species"``

    Raises:
        DataError: the data cannot be had or cannot be trusted; the message says what to do

    Example:
        >>> digits = load("digits")
        >>> digits.train.inputs.shape, digits.train.inputs.dtype
        (torch.Size([1257, 1, 8, 8]), torch.uint8)
    """
    return load_with(source, reading_options(settings))


def load_with(source: Source, options: ReadingOptions, *, leave_texts: bool = False) -> Splits:
    """Return what `load` returns, by options that are checked already.

    Args:
        source: what `load` takes
        options: how to read it
        leave_texts: True to leave the texts of a table as they are, to be embedded, or to be
            encoded by `Splits.encoded_by`, so that no vocabulary is made in vain
    """
    if not isinstance(source, str | Path):
        return _from_memory(source, options, leave_texts)
    published = find_published(source) if isinstance(source, str) else None
    if published is not None:
        options.refuse_all_but("data_dir", what="a data set that is known by name")
        return load_published(published, options.data_dir)
    path = Path(source)
    if not _exists(path):
        raise DataError(
            f"{str(source)!r} is neither a file or folder nor a known data set; known are "
            f"{', '.join(DATASETS)}"
        )
    return _load_path(path, options, leave_texts)


def _from_memory(data: Source, options: ReadingOptions, leave_texts: bool) -> Splits:
    if is_frame(data):
        options.refuse_all_but(*_OF_TABLES, what="data in memory")
        return frame_splits(
            as_table(data),
            options,
            name="data frame",
            source="the data frame",
            leave_texts=leave_texts,
        )
    if isinstance(data, tuple) and len(data) == 2 and as_texts(data[0]) is not None:
        options.refuse_all_but("skip_bad", "merge_labels", what="texts in memory")
        return text_splits(*data, options, leave_texts=leave_texts)
    options.refuse_all_but(what="arrays")
    if isinstance(data, Splits):
        return data
    if isinstance(data, Dataset):
        return Splits("data set", data, None, source="memory")
    if isinstance(data, tuple) and len(data) == 2:
        return Splits("arrays", dataset_from_arrays(*data), None, source="memory")
    raise DataError(
        "expected the name of a data set, a path, a data frame, a Dataset, or a pair (inputs, "
        f"labels); got {type(data).__name__}"
    )


def load_published(published: Published, data_dir: str | Path | None = None) -> Splits:
    """Return a published data set: found or downloaded, verified, read and counted."""
    found = [find_or_download(part, data_dir) for part in published.parts]
    splits = published.assemble(
        *(each.release.read(each.release.open(each.folder)) for each in found)
    )
    counts = (len(splits.train), len(splits.test) if splits.test else 0)
    if counts not in published.counts:
        expected = " or ".join(f"{train} and {test}" for train, test in published.counts)
        raise DataError(
            f"{splits.source} has {counts[0]} training and {counts[1]} test examples, but "
            f"{published.name} as published has {expected}: it is incomplete or something else; "
            "to use it all the same, load it by its path"
        )
    return splits


def holds_images(path: Path) -> bool:
    """True if a folder is one of images, rather than of files of another kind."""
    return not (holds_idx(path) or holds_embeddings(path) or holds_texts(path))


def _load_path(path: Path, options: ReadingOptions, leave_texts: bool) -> Splits:
    if path.is_dir() and holds_embeddings(path):
        options.refuse_all_but("data_dir", "skip_bad", what="a folder of embeddings")
        return read_embeddings(path)
    if path.is_dir() and holds_idx(path):
        options.refuse_all_but("data_dir", "skip_bad", what="a folder of IDX files")
        return read_idx_folder(path)
    if path.is_dir() and holds_texts(path):
        allowed = ("data_dir", "skip_bad", "encoding", "merge_labels")
        options.refuse_all_but(*allowed, what="a folder of texts")
        return read_text_folder(path, options, leave_texts=leave_texts)
    if path.is_dir():
        options.refuse_all_but("data_dir", "image_size", "skip_bad", what="a folder of images")
        return read_image_folder(path, options.image_size, options.skip_bad)
    if is_table(path):
        options.refuse_all_but("data_dir", *_OF_TABLES, what="a table")
        return read_table(path, options, leave_texts=leave_texts)
    options.refuse_all_but("data_dir", "target", "skip_bad", what="a file that is no table")
    target = options.target
    if path.suffix.lower() == ".npz":
        train, test = read_npz(path, target)
        data = dataset_from_arrays(*train)
        test_data = dataset_from_arrays(*test, class_names=data.class_names) if test else None
        return Splits(path.name, data, test_data, source=str(path))
    if path.suffix.lower() == ".npy":
        return Splits(path.name, dataset_from_arrays(*read_npy(path, target)), None, str(path))
    raise DataError(
        f"{path} is of a kind that is not read: expected a folder of images or of .txt files (one "
        "folder per class), or a .csv, .tsv, .jsonl, .parquet, .xlsx, .npz or .npy file"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long for one
        return False
