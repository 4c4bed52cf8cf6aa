"""Files in folders and archives, behind one gate for sizes, encodings and errors; and the cache."""

import codecs
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

import pooch
from rich.filesize import decimal

from noisebound.errors import DataError, MissingExtraError

_ALWAYS_ALLOWED = 2**30  # bytes; heuristic: this fits into the memory of any machine
_USUAL_RATIO = 100  # heuristic: text and images compress 2 to 20 times, a file of zeros 1,000 times
_CHUNK = 2**20  # bytes unpacked at a time


@contextmanager
def as_data_error(name: str | Path, remedy: str = "fetch it again") -> Iterator[None]:
    """Turn any exception within the block into a `DataError` that names the file.

    Third-party parsers (gzip, zipfile, Pillow, polars) may raise anything on damaged or hostile
    bytes. A keyboard interrupt still passes.
    """
    try:
        yield
    except (DataError, MissingExtraError):
        raise
    except Exception as error:
        reason = str(error).strip() or "no reason given"
        raise DataError(
            f"{name} cannot be read ({type(error).__name__}: {reason}): it is truncated, damaged "
            f"or of another format; {remedy}"
        ) from error


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Raise a `DataError` if a file would unpack to over 100 times its size and over a gigabyte.

    A few kilobytes can claim to hold gigabytes. Sizes are in bytes.
    """
    limit = max(_ALWAYS_ALLOWED, _USUAL_RATIO * packed)
    if unpacked > limit:
        raise DataError(
            f"{name} of {decimal(packed)} would unpack to {decimal(unpacked)} or more, over the "
            f"limit of {decimal(limit)}: if you trust it, unpack it, or save it without compression"
        )


def check_zip(file: Path | BinaryIO, name: str, packed: int) -> None:
    """Raise a `DataError` if all files in a zip file together would unpack to too much."""
    with zipfile.ZipFile(file) as archive:
        check_unpacked(name, packed, sum(member.file_size for member in archive.infolist()))


class Files(ABC):
    """Files, read by name."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    @abstractmethod
    def names(self) -> list[str]:
        """Return the name of every file, sorted, with forward slashes."""

    def where(self, name: str = "") -> str:
        """Return how messages name one file, or all of them."""
        return f"{self.path}:{name}" if name else str(self.path)

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash that changes when one of these files is written again."""
        digest = hashlib.sha256(os.fsencode("\n".join(names)))
        for path in self._paths(names):
            marks: tuple[int, ...] = ()
            with suppress(OSError):  # such as a broken link; reading it will raise
                found = path.stat()
                marks = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            digest.update(os.fsencode(path) + repr(marks).encode())
        return digest.hexdigest()

    def _paths(self, names: Sequence[str]) -> Iterable[Path]:
        return [self.path]


class Folder(Files):
    """The files below a folder, which is listed once."""

    def read(self, name: str) -> bytes:
        with as_data_error(self.where(name)):
            return (self.path / name).read_bytes()

    def names(self) -> list[str]:
        """Return the name of every file; links are followed, but no folder is entered twice."""
        return self._names

    def folders(self) -> list[str]:
        names = (child.name for child in self.path.iterdir() if child.is_dir())
        return sorted(name for name in names if not is_hidden(name))

    def below(self, folder: str) -> "Folder":
        """Return one of the folders, without listing it again."""
        found, start = Folder(self.path / folder), f"{folder}/"
        found._names = [name.removeprefix(start) for name in self._names if name.startswith(start)]
        return found

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = []
        entered = set()
        for folder, subfolders, files in os.walk(self.path, followlinks=True):
            if (here := os.path.realpath(folder)) in entered:
                subfolders.clear()
                continue
            entered.add(here)
            below = Path(folder).relative_to(self.path)
            names += [(below / name).as_posix() for name in files]
        return sorted(names)

    def where(self, name: str = "") -> str:
        return str(self.path / name)

    def _paths(self, names: Sequence[str]) -> Iterable[Path]:
        return (self.path / name for name in names)


def is_hidden(name: str) -> bool:
    """True for a relative path that is hidden, such as ``.git/config`` and ``a/._0.txt``."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePath(name).parts)


class Zip(Files):
    """The files in a zip file; several threads may read at once."""

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        with as_data_error(self.path):
            return zipfile.ZipFile(self.path)

    def read(self, name: str) -> bytes:
        """Return the content of one file; its checksum is verified."""
        with as_data_error(self.where(name)):
            member = self._archive.getinfo(name)
            check_unpacked(self.where(name), member.compress_size, member.file_size)
            return self._archive.read(member)

    def names(self) -> list[str]:
        return sorted(name for name in self._archive.namelist() if not name.endswith("/"))


class Tar(Files):
    """The files in a tar file, all read into memory at once, since compression allows one pass."""

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        packed, unpacked = self.path.stat().st_size, 0
        contents = {}
        with as_data_error(self.path), tarfile.open(self.path) as archive:
            for member in archive:
                unpacked += member.size
                check_unpacked(str(self.path), packed, unpacked)
                if (content := archive.extractfile(member)) is not None:
                    contents[member.name] = content.read()
        return contents

    def read(self, name: str) -> bytes:
        contents = self._contents
        with as_data_error(self.where(name)):
            return contents[name]

    def names(self) -> list[str]:
        return sorted(self._contents)


def gunzip(content: bytes, name: str) -> bytes:
    """Return the uncompressed content; its length and checksum are verified."""
    chunks, unpacked = [], 0
    with as_data_error(name), gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        while chunk := stream.read(_CHUNK):
            chunks.append(chunk)
            unpacked += len(chunk)
            check_unpacked(name, len(content), unpacked)
    return b"".join(chunks)


def read_utf8(path: Path, encoding: str | None = None) -> bytes:
    """Return the content of a text file in UTF-8, uncompressed if its name ends in ``.gz``.

    The default encoding is UTF-16 if the file begins with its byte order mark, else UTF-8.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        content = gunzip(content, str(path))
    has_mark = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = known_encoding(encoding or ("utf-16" if has_mark else "utf-8"))
    try:
        return content if encoding == "utf-8" else content.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not written in {encoding}: name another `encoding`, such as latin-1"
        ) from error


def known_encoding(name: str) -> str:
    """Return the usual name of a character encoding; raise a `DataError` for an unknown one."""
    try:
        "".encode(name)  # refuses codecs that are not encodings, such as rot13 and base64
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise DataError(
            f"`encoding` must be a name such as utf-8, latin-1, cp1252 or utf-16, got {name!r}"
        ) from error


DEBIAN_DATASETS = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist installs

KINDS = {
    "decoded": "decoded images",
    "embeddings": "outputs of backbones",
    "contents": "hashes of the inputs of backbones",
    "linear": "predictions of linear classifiers",
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


class CachedFiles(NamedTuple):
    """The files in one subfolder of the cache."""

    folder: Path
    what: str
    files: int
    nbytes: int
    is_cleared: bool  # True if they can be made again


def cached_files(downloads: Iterable[str] = ()) -> list[CachedFiles]:
    """Return the content of the cache folder, folder by folder, without files of other programs.

    ``downloads`` are the subfolders of published data sets.
    """
    found = []
    for name, what in (KINDS | dict.fromkeys(sorted(downloads), "downloaded data set")).items():
        folder = cache_folder() / name
        sizes = []
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # another process has just finished or removed it
                sizes += [path.stat().st_size] if path.is_file() else []
        if sizes:
            found.append(CachedFiles(folder, what, len(sizes), sum(sizes), name in KINDS))
    return found


def clear_cache() -> list[CachedFiles]:
    """Remove the files that noisebound can make again, and return them; downloads stay."""
    removed = cached_files()
    for found in removed:
        shutil.rmtree(found.folder)
    return removed
