"""Named files in a folder, a zip or a tar file, behind one interface."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath

from noisebound.data.limits import check_unpacked
from noisebound.data.reading import reading
from noisebound.errors import DataError

_CHUNK = 2**20  # bytes that are unpacked at a time: a choice


class Files(ABC):
    """Files that are read by name."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the whole content of one file."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the name of every file, sorted, with forward slashes."""

    def where(self, name: str = "") -> str:
        """Return how messages name one file, or all of them."""
        return f"{self.path}:{name}" if name else str(self.path)

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash that changes when one of these files is written again."""
        return files_fingerprint([self.path])


class Folder(Files):
    """The files below a folder."""

    def read(self, name: str) -> bytes:
        """Return the whole content of one file."""
        with reading(self.where(name)):
            return (self.path / name).read_bytes()

    def names(self) -> list[str]:
        """Return the name of every file; links are followed, but no folder is entered twice."""
        found, entered = [], set()
        for folder, subfolders, names in os.walk(self.path, followlinks=True):
            if (here := os.path.realpath(folder)) in entered:
                subfolders.clear()
                continue
            entered.add(here)
            below = Path(folder).relative_to(self.path)
            found += [(below / name).as_posix() for name in names]
        return sorted(found)

    def where(self, name: str = "") -> str:
        """Return the path."""
        return str(self.path / name)

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash of the path, size and times of each file."""
        return files_fingerprint(self.path / name for name in names)


def is_hidden(name: PurePath) -> bool:
    """True for what programs leave in a folder of data unseen, such as ``.git`` and ``._0.txt``.

    Args:
        name: the path of a file or folder, relative to the folder of the data
    """
    return any(part.startswith(".") or part == "__MACOSX" for part in name.parts)


def visible_folders(path: Path) -> list[Path]:
    """Return the folders directly in a folder that are not hidden, sorted."""
    folders = (folder for folder in path.iterdir() if folder.is_dir())
    return sorted(folder for folder in folders if not is_hidden(folder.relative_to(path)))


class Zip(Files):
    """The files in a zip file; several threads may read at once."""

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        with reading(self.path):
            return zipfile.ZipFile(self.path)

    def read(self, name: str) -> bytes:
        """Return the whole content of one file, after a check of its checksum."""
        with reading(self.where(name)):
            member = self._archive.getinfo(name)
            check_unpacked(self.where(name), member.compress_size, member.file_size)
            return self._archive.read(member)

    def names(self) -> list[str]:
        """Return the name of every file."""
        return sorted(name for name in self._archive.namelist() if not name.endswith("/"))


class Tar(Files):
    """The files in a tar file, all read into memory at once, since compression allows one pass."""

    @cached_property
    def _contents(self) -> Mapping[str, bytes]:
        packed, unpacked = self.path.stat().st_size, 0
        contents = {}
        with reading(self.path), tarfile.open(self.path) as archive:
            for member in archive:
                unpacked += member.size
                check_unpacked(str(self.path), packed, unpacked)
                if member.isfile() and (content := archive.extractfile(member)) is not None:
                    contents[member.name] = content.read()
        return contents

    def read(self, name: str) -> bytes:
        """Return the whole content of one file."""
        try:
            return self._contents[name]
        except KeyError:
            raise DataError(f"{self.path} lacks {name}: fetch it again") from None

    def names(self) -> list[str]:
        """Return the name of every file."""
        return sorted(self._contents)


def gunzip(content: bytes, name: str) -> bytes:
    """Return the uncompressed content, after a check of its length and checksum."""
    parts, unpacked = [], 0
    with reading(name), gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        while part := stream.read(_CHUNK):
            unpacked += len(part)
            check_unpacked(name, len(content), unpacked)
            parts.append(part)
    return b"".join(parts)


def files_fingerprint(paths: Iterable[Path]) -> str:
    """Return a hash of the path, size and times of each file."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(os.fsencode(path))
        try:
            status = path.stat()
        except OSError as error:  # such as a broken link; reading it will raise
            digest.update(str(error.errno).encode())
            continue
        marks = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest.update(repr(marks).encode())
    return digest.hexdigest()
