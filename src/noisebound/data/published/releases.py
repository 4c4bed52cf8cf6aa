"""Published data sets: records of their files, which are found, downloaded and verified.

This package imports torch only where data is read, so that a list of data sets starts quickly.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pooch
import requests
from filelock import FileLock

from noisebound.data.archives import Files, Folder, Tar, Zip, as_data_error
from noisebound.data.cache import cache_folder, search_folders
from noisebound.errors import DataError
from noisebound.system.progress import counting

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits


@dataclass(frozen=True)
class PublishedFile:
    """A file as its authors publish it.

    Args:
        name: its path, relative to the data set's folder
        hashes: ``algorithm:digest`` of every version in circulation, first that of ``url``; empty
            for files of an unpacked archive
        url: where to download it, if that is possible
    """

    name: str
    hashes: tuple[str, ...] = ()
    url: str | None = None


Release: TypeAlias = tuple[PublishedFile, ...]
"""All files of one of the forms in which a data set is published; one archive, or unpacked."""


@dataclass(frozen=True)
class Part:
    """A part of a data set, in every release in which it may be on a disk.

    Args:
        folders: the names that its folder may have, first the one for downloads; ``""`` if the
            names of its files are distinctive, so that they need no folder of their own
        releases: in the order of preference; the first downloadable one is downloaded
        read: returns the part from the files of any release
        how_to_obtain: the beginning of a sentence that ends with the folder to put the files in,
            if no release is downloadable
    """

    folders: tuple[str, ...]
    releases: tuple[Release, ...]
    read: Callable[[Files], Any]
    how_to_obtain: str = ""


@dataclass(frozen=True)
class Published:
    """A published data set, known by name.

    Args:
        name: its name in this library
        title: its description in the list of data sets
        parts: the parts that it is read from
        counts: the pairs of numbers of training and test examples that it may have
        assemble: returns training and test examples from the results of each part's `read`; by
            default, the only part is the data set
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    counts: tuple[tuple[int, int], ...]
    assemble: "Callable[..., Splits]" = lambda splits: splits


_CHUNK = 1 << 16  # bytes
_TIMEOUT = (10, 60)  # seconds to connect, and between two chunks


def download(url: str, known_hash: str, path: Path) -> Path:
    """Download a file and return its path; an interrupted download is resumed.

    Raises:
        DataError: the server cannot be reached, or its file is not the published one; the message
            says which file to put where by hand
    """
    by_hand = f"or get the file with the hash {known_hash} by hand and put it at {path}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # If another process downloads the same file, this one waits and then finds it.
        with FileLock(path.with_name(f".{path.name}.lock")):
            pooch.retrieve(
                url,
                known_hash,
                fname=path.name,
                path=path.parent,
                downloader=lambda url, target, _: _download_resumably(url, Path(target), path),
            )
    except (requests.RequestException, OSError) as error:
        raise DataError(
            f"{path.name} could not be downloaded from {url} ({_root_cause(error)}); try again, "
            f"{by_hand}"
        ) from error
    except ValueError as error:  # raised by pooch for a wrong hash
        raise DataError(
            f"the file from {url} is not {path.name} as published (its hash should be "
            f"{known_hash}); "
            f"try again, {by_hand}"
        ) from error
    return path


def _download_resumably(url: str, target: Path, final: Path) -> None:
    """Download to a ``.part`` file, which survives an interruption, and move it when complete."""
    part = final.with_name(f"{final.name}.part")
    done = part.stat().st_size if part.exists() else 0
    # Uncompressed, because the bytes are counted and hashed as they arrive.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.replace(target)  # complete; the check of its hash follows
            return
        response.raise_for_status()
        resumes = response.status_code == requests.codes.partial_content
        done = done if resumes else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with (
            part.open("ab" if resumes else "wb") as file,
            counting(final.name, total, unit="bytes", done=done) as advance,
        ):
            for piece in response.iter_content(_CHUNK):
                file.write(piece)
                advance(len(piece))
    if total is not None and part.stat().st_size != total:
        raise requests.ConnectionError(f"the connection ended after {part.stat().st_size} bytes")
    part.replace(target)


def _root_cause(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__


class Found(NamedTuple):
    """A release on this machine, and the folder that the names of its files are relative to."""

    release: Release
    folder: Path

    def open(self) -> Files:
        """Return its files, unpacked as they are read."""
        path = self.folder / self.release[0].name
        kind = {".zip": Zip, ".gz": Tar}.get(path.suffix) if len(self.release) == 1 else None
        return Folder(self.folder) if kind is None else kind(path)


def find_or_download(part: Part, data_dir: str | Path | None) -> Found:
    """Return a part with verified hashes; if it is not on this machine, download it first."""
    found = find(part, data_dir) or _download(part, data_dir)
    for file in found.release:
        verify(found.folder / file.name, file)
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


def verify(path: Path, file: PublishedFile) -> None:
    """Raise a `DataError` if a file differs from the published one."""
    if not file.hashes or not path.is_file():
        return
    algorithm = file.hashes[0].partition(":")[0]
    with as_data_error(path), path.open("rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).hexdigest()
    if f"{algorithm}:{digest}" not in file.hashes:
        raise DataError(
            f"{path} is not the file that was published: its {algorithm} is {digest}, expected "
            f"{file.hashes[0].partition(':')[2]}; it is truncated or altered: remove it and fetch "
            "it again"
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
