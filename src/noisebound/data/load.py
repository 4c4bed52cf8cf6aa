"""One door for every kind of data: a known name, or a path to the user's own files."""

from pathlib import Path

from noisebound.data.dataset import Splits, dataset_from_arrays
from noisebound.data.finding import find_or_download
from noisebound.data.published.record import Published
from noisebound.data.registry import DATASETS, find_published
from noisebound.data.user.arrays import read_npy, read_npz
from noisebound.data.user.idx_folder import holds_idx, read_idx_folder
from noisebound.data.user.image_folder import read_image_folder
from noisebound.data.user.tables import is_table, read_table
from noisebound.errors import DataError


def load(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    target: str | None = None,
    image_size: int | None = None,
    skip_bad: bool = False,
) -> Splits:
    """A data set as tensors.

    Args:
        name_or_path: a name that ``noisebound data list`` shows; or a folder of images (one folder
            a class) or of IDX files, a CSV, TSV, Parquet, npz or npy file. A name wins over a path
            that reads the same: write ``./mnist`` for the path
        data_dir: where published files are looked for first; by default ``NOISEBOUND_DATA``
        target: the column, or the array, that holds the labels
        image_size: the height and width to which a folder's images are brought
        skip_bad: leave out images that cannot be read, and rows without a label

    Raises:
        DataError: the data cannot be had or cannot be trusted; it says what to do

    Example:
        >>> digits = load("digits")
        >>> digits.train.inputs.shape, digits.train.inputs.dtype
        (torch.Size([1257, 1, 8, 8]), torch.uint8)
    """
    published = find_published(name_or_path) if isinstance(name_or_path, str) else None
    if published is not None:
        _refuse(
            "a data set that is known by name",
            target=target,
            image_size=image_size,
            skip_bad=skip_bad or None,
        )
        return load_published(published, data_dir)
    path = Path(name_or_path)
    if not _exists(path):
        raise DataError(
            f"{str(name_or_path)!r} is neither a file or folder nor a known data set; known are "
            f"{', '.join(DATASETS)}"
        )
    return _load_path(path, target, image_size, skip_bad)


def load_published(published: Published, data_dir: str | Path | None = None) -> Splits:
    """A data set by its record: found or downloaded, verified, read, counted."""
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


def _load_path(path: Path, target: str | None, image_size: int | None, skip_bad: bool) -> Splits:
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
        held_out = dataset_from_arrays(*test, class_names=data.class_names) if test else None
        return Splits(path.name, data, held_out, source=str(path))
    if path.suffix.lower() == ".npy":
        return Splits(path.name, dataset_from_arrays(*read_npy(path, target)), None, str(path))
    raise DataError(
        f"{path} is of a kind that is not read: expected a folder of images (one folder a class), "
        "or a .csv, .tsv, .parquet, .npz or .npy file"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long for one
        return False


def _refuse(what: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise DataError(
                f"--{name.replace('_', '-')} (in Python: {name}) does not apply to {what}: "
                "leave it out"
            )
