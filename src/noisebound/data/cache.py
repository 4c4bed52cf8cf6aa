"""The folders of this machine: the search path for data, and the cache."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pooch

from noisebound.errors import DataError

DEBIAN_DATASETS = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist installs

KINDS = {
    "decoded": "decoded images",
    "embeddings": "outputs of backbones",
    "contents": "hashes of the inputs of backbones",
    "tables": "tables as blocks of numbers",
    "linear": "predictions of linear classifiers",
    "thumbnails": "small images of the review page",
}
"""The subfolders of the cache folder whose files can be made again. Only these are cleared."""


def cache_folder() -> Path:
    """Return the folder that ``NOISEBOUND_CACHE`` names, else the user's cache folder."""
    return Path(os.environ.get("NOISEBOUND_CACHE") or pooch.os_cache("noisebound"))


def search_folders(data_dir: str | Path | None) -> list[Path]:
    """Return the folders to search for published files: ``data_dir``, or NOISEBOUND_DATA, first."""
    named = data_dir or os.environ.get("NOISEBOUND_DATA")
    first = [Path(named).absolute()] if named else []
    if first and not first[0].is_dir():
        origin = "`data_dir`" if data_dir else "NOISEBOUND_DATA"
        raise DataError(f"{origin} must be a folder, got {first[0]}")
    return [*first, cache_folder(), DEBIAN_DATASETS]


@dataclass(frozen=True)
class CachedFiles:
    """The files of one folder in the cache: what they are, their number and size in bytes.

    Those that can be made again are cleared; downloads are not.
    """

    folder: Path
    what: str
    files: int
    nbytes: int
    is_cleared: bool


def cached_files(downloads: Iterable[str] = ()) -> list[CachedFiles]:
    """Return the content of the cache folder, folder by folder, without files of other programs.

    Unfinished files of killed processes count too. ``downloads`` are the subfolders of published
    data sets.
    """
    found = []
    for name, what in (KINDS | dict.fromkeys(sorted(downloads), "downloaded data set")).items():
        folder = cache_folder() / name
        if sizes := list(_sizes(folder)):
            found.append(CachedFiles(folder, what, len(sizes), sum(sizes), name in KINDS))
    return found


def clear_cache() -> list[CachedFiles]:
    """Remove the files that noisebound can make again, and return them; downloads stay."""
    removed = cached_files()
    for found in removed:
        shutil.rmtree(found.folder)
    return removed


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process has just finished or removed it
            if path.is_file():
                yield path.stat().st_size
