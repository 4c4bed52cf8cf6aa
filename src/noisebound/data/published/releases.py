"""Published data sets: records of their files, which are found, downloaded and verified.

This package imports torch only where data is read, so that a list of data sets starts quickly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pooch
import requests
from filelock import FileLock
from pydantic import BaseModel, ConfigDict

from noisebound.data.files import (
    Files,
    Folder,
    Tar,
    Zip,
    as_data_error,
    cache_folder,
    search_folders,
)
from noisebound.errors import DataError
from noisebound.system.progress import counting


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedFile(_Record):
    """A file as its authors publish it, by its path in the data set's folder.

    The hashes are ``algorithm:digest`` of every version in circulation, first that of the URL. A
    file of an unpacked archive has none.
    """

    name: str
    hashes: tuple[str, ...] = ()
    url: str | None = None


Release: TypeAlias = tuple[PublishedFile, ...]
"""All files of one of the forms in which a data set is published; one archive, or unpacked."""


class Part(_Record):
    """A part of a data set, in every release in which it may be on a disk, the preferred first.

    The first name of its folder is the one for downloads; ``""`` if the names of its files are
    distinctive. `how_to_obtain` begins a sentence that ends with that folder, if nothing can be
    downloaded.
    """

    folders: tuple[str, ...]
    releases: tuple[Release, ...]
    how_to_obtain: str = ""


class Published(_Record):
    """A published data set."""

    name: str
    title: str  # in lists
    parts: tuple[Part, ...]
    counts: tuple[int, int]  # of training and test examples
    read: Callable[..., Any]  # returns its `Splits` from the `Files` of each part


_CHUNK = 1 << 16  # bytes
_TIMEOUT = (10, 60)  # seconds to connect, and between two chunks


def download(url: str, known_hash: str, path: Path) -> Path:
    """Download a file, unless it is there already, and return its path.

    If that fails, a `DataError` says which file to put where by hand.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # If another process downloads the same file, this one waits and then finds it.
        with FileLock(path.with_name(f".{path.name}.lock")):
            pooch.retrieve(
                url, known_hash, fname=path.name, path=path.parent, downloader=_with_progress
            )
    except (requests.RequestException, OSError, ValueError) as error:  # pooch's, for a wrong hash
        raise DataError(
            f"{path.name} could not be downloaded from {url} ({error}); try again, or get the file "
            f"with the hash {known_hash} by hand and put it at {path}"
        ) from error
    return path


def _with_progress(url: str, target: str, _: object) -> None:
    with requests.get(url, stream=True, timeout=_TIMEOUT) as response:
        response.raise_for_status()
        total = int(response.headers.get("Content-Length", 0)) or None
        name = url.rpartition("/")[2]
        with Path(target).open("wb") as file, counting(name, total, unit="bytes") as advance:
            for piece in response.iter_content(_CHUNK):
                file.write(piece)
                advance(len(piece))


class Found(NamedTuple):
    """A release on this machine, and the folder that the names of its files are relative to."""

    release: Release
    folder: Path

    def open(self) -> Files:
        path = self.folder / self.release[0].name
        kind = {".zip": Zip, ".gz": Tar}.get(path.suffix) if len(self.release) == 1 else None
        return Folder(self.folder) if kind is None else kind(path)


def find_or_download(part: Part, data_dir: str | Path | None) -> Found:
    """Return a part with verified hashes; if it is not on this machine, download it first."""
    found = find(part, data_dir) or _download(part, data_dir)
    for file in found.release:
        _verify(found.folder / file.name, file)
    return found


def find(part: Part, data_dir: str | Path | None) -> Found | None:
    """Return the first complete release in the search folders, if any."""
    for root in search_folders(data_dir):
        # The root may be one of the part's folders, or the folder that has them.
        own = [root] if root.name in part.folders else []
        for folder in [*own, *(root / name for name in part.folders)]:
            for release in part.releases:
                if all((folder / file.name).exists() for file in release):
                    return Found(release, folder)
    return None


def _verify(path: Path, file: PublishedFile) -> None:
    if not file.hashes:
        return
    algorithm, _, expected = file.hashes[0].partition(":")
    with as_data_error(path):
        digest = pooch.file_hash(str(path), alg=algorithm)
    if f"{algorithm}:{digest}" not in file.hashes:
        raise DataError(
            f"{path} is not the file that was published: its {algorithm} is {digest}, expected "
            f"{expected}; it is truncated or altered: remove it and fetch it again"
        )


def _download(part: Part, data_dir: str | Path | None) -> Found:
    folder = cache_folder() / part.folders[0]
    for release in part.releases:
        if all(file.url for file in release):
            for file in release:
                download(str(file.url), file.hashes[0], folder / file.name)
            return Found(release, folder)
    places = " or ".join(str(root / part.folders[0]) for root in search_folders(data_dir)[:-1])
    raise DataError(f"{part.how_to_obtain} in {places}")
