"""What the cache folder holds, and how it is cleared."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noisebound.data.folders import cache_folder
from noisebound.data.registry import DATASETS

KINDS = {
    "decoded": "decoded images",
    "headers": "sizes of images",
    "embeddings": "outputs of backbones",
    "contents": "hashes of the inputs of backbones",
    "tables": "tables as blocks of numbers",
    "linear": "predictions of linear classifiers",
    "thumbnails": "small images of the review page",
}
"""What noisebound keeps and can make again, by the folder that it is in. Only this is cleared."""


@dataclass(frozen=True)
class CachedFiles:
    """The files of one folder in the cache folder.

    Args:
        folder: the folder
        what: what they are
        files: number of files
        nbytes: their size, in bytes
        is_cleared: True if they can be made again and are cleared; False for downloads
    """

    folder: Path
    what: str
    files: int
    nbytes: int
    is_cleared: bool


def cached_files() -> list[CachedFiles]:
    """Return what the cache folder holds, folder by folder; what is not noisebound's is left out.

    Files of a process that was killed while it wrote them are counted too.
    """
    downloads = {part.folders[0] for known in DATASETS.values() for part in known.parts}
    whats = KINDS | dict.fromkeys(sorted(downloads), "downloaded data set")
    found = []
    for name, what in whats.items():
        folder = cache_folder() / name
        sizes = list(_sizes(folder))
        if sizes:
            found.append(CachedFiles(folder, what, len(sizes), sum(sizes), name in KINDS))
    return found


def clear_cache() -> list[CachedFiles]:
    """Remove what noisebound can make again, and return what was removed; downloads stay."""
    removed = [found for found in cached_files() if found.is_cleared]
    for found in removed:
        shutil.rmtree(found.folder)
    return removed


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process has just finished or removed it
            if path.is_file():
                yield path.stat().st_size
