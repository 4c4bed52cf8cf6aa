"""One door for every kind of data: a known name, a path to the user's files, data in memory."""

from pathlib import Path
from typing import Any, TypeAlias

from noisebound.data.dataset import Dataset, Splits, dataset_from_arrays
from noisebound.data.finding import find_or_download
from noisebound.data.frames import as_polars, is_frame
from noisebound.data.published.record import Published
from noisebound.data.registry import DATASETS, find_published
from noisebound.data.user.arrays import read_npy, read_npz
from noisebound.data.user.embeddings_folder import holds_embeddings, read_embeddings
from noisebound.data.user.idx_folder import holds_idx, read_idx_folder
from noisebound.data.user.image_folder import read_image_folder
from noisebound.data.user.tables import frame_splits, is_table, read_table
from noisebound.errors import DataError

Source: TypeAlias = "str | Path | Dataset | Splits | tuple[Any, Any] | Any"
"""A known name, a path, a data set, a data frame, or a pair of inputs and labels."""


def load(
    source: Source,
    *,
    data_dir: str | Path | None = None,
    target: str | None = None,
    image_size: int | None = None,
    skip_bad: bool = False,
) -> Splits:
    """Return a data set as tensors.

    Args:
        source: a name that ``noisebound data list`` shows; or a folder of images (one folder per
            class), of IDX files or of embeddings, a CSV, TSV, Parquet, npz or npy file; or, in
            memory, a `Dataset`, a data frame of polars or pandas, or a pair of inputs and labels.
            A name wins over a path that reads the same: write ``./mnist`` for the path
        data_dir: where published files are looked for first; by default ``NOISEBOUND_DATA``
        target: the column, or the array, that holds the labels
        image_size: the height and width, in pixels, to which a folder's images are brought
        skip_bad: True to leave out images that cannot be read, and rows without a label

    Raises:
        DataError: the data cannot be had or cannot be trusted; the message says what to do

    Example:
        >>> digits = load("digits")
        >>> digits.train.inputs.shape, digits.train.inputs.dtype
        (torch.Size([1257, 1, 8, 8]), torch.uint8)
    """
    if not isinstance(source, str | Path):
        _refuse("data in memory", data_dir=data_dir, image_size=image_size)
        return _from_memory(source, target, skip_bad)
    published = find_published(source) if isinstance(source, str) else None
    if published is not None:
        _refuse(
            "a data set that is known by name",
            target=target,
            image_size=image_size,
            skip_bad=skip_bad or None,
        )
        return load_published(published, data_dir)
    path = Path(source)
    if not _exists(path):
        raise DataError(
            f"{str(source)!r} is neither a file or folder nor a known data set; known are "
            f"{', '.join(DATASETS)}"
        )
    return _load_path(path, target, image_size, skip_bad)


def _from_memory(data: Source, target: str | None, skip_bad: bool) -> Splits:
    if is_frame(data):
        frame = as_polars(data)
        return frame_splits(frame, target, skip_bad, name="data frame", source="the data frame")
    _refuse("arrays", target=target, skip_bad=skip_bad or None)
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
    return not holds_idx(path) and not holds_embeddings(path)


def _load_path(path: Path, target: str | None, image_size: int | None, skip_bad: bool) -> Splits:
    if path.is_dir() and holds_embeddings(path):
        _refuse("a folder of embeddings", target=target, image_size=image_size)
        return read_embeddings(path)
    if path.is_dir() and holds_idx(path):
        _refuse("a folder of IDX files", target=target, image_size=image_size)
        return read_idx_folder(path)
    if path.is_dir():
        _refuse("a folder of images", target=target)
        return read_image_folder(path, image_size, skip_bad)
    _refuse("a file that is not an image", image_size=image_size)
    if is_table(path):
        return read_table(path, target, skip_bad)
    if path.suffix.lower() == ".npz":
        train, test = read_npz(path, target)
        data = dataset_from_arrays(*train)
        test_data = dataset_from_arrays(*test, class_names=data.class_names) if test else None
        return Splits(path.name, data, test_data, source=str(path))
    if path.suffix.lower() == ".npy":
        return Splits(path.name, dataset_from_arrays(*read_npy(path, target)), None, str(path))
    raise DataError(
        f"{path} is of a kind that is not read: expected a folder of images (one folder per "
        "class), or a .csv, .tsv, .parquet, .npz or .npy file"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long for one
        return False


def _refuse(what: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise DataError(f"`{name}` does not apply to {what}: leave it out")
