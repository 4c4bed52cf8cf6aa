"""Files in folders and archives, behind one gate: sizes, encodings and errors."""

import codecs
import gzip
import hashlib
import io
import os
import re
import tarfile
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePath
from typing import IO, BinaryIO

from rich.filesize import decimal

from noisebound.errors import DataError, InvalidValueError, MissingExtraError

UNPACKED_VARIABLE = "NOISEBOUND_MAX_UNPACKED"

_ALWAYS_ALLOWED = 2**30  # bytes; heuristic: this fits into the memory of any machine
_USUAL_RATIO = 100  # heuristic: text and images compress 2 to 20 times, a file of zeros 1,000 times
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CHUNK = 2**20  # bytes unpacked at a time
_BYTE_ORDER_MARKS = {  # at the start of a file; longer ones come first
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


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

    A few kilobytes can claim to hold gigabytes, by mistake or by intent. The environment variable
    ``NOISEBOUND_MAX_UNPACKED`` replaces the gigabyte. Sizes are in bytes.
    """
    limit = max(size_limit(UNPACKED_VARIABLE, _ALWAYS_ALLOWED), _USUAL_RATIO * packed)
    if unpacked > limit:
        raise DataError(
            f"{name} of {decimal(packed)} would unpack to {decimal(unpacked)} or more, over the "
            f"limit of {decimal(limit)}: if you trust it and have the memory, raise the limit by "
            f"the environment variable, as in {UNPACKED_VARIABLE}={-(-unpacked // 10**9)}G"
        )


def size_limit(variable: str, default: int) -> int:
    """Return the number in an environment variable, such as 8G."""
    text = os.environ.get(variable)
    if not text:
        return default
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InvalidValueError(
            f"the environment variable {variable} must be a number such as 8G, got {text!r}"
        )
    return int(match[1]) * _UNITS[match[2].upper()]


class Files(ABC):
    """Files, read by name."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the whole content of one file."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the name of every file, sorted, with forward slashes."""

    def open(self, name: str) -> BinaryIO:
        """Open one file, to read a part of it."""
        return io.BytesIO(self.read(name))

    def where(self, name: str = "") -> str:
        """Return how messages name one file, or all of them."""
        return f"{self.path}:{name}" if name else str(self.path)

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash that changes when one of these files is written again."""
        return files_fingerprint([self.path])


class Folder(Files):
    """The files below a folder, which is listed once."""

    def read(self, name: str) -> bytes:
        """Return the whole content of one file."""
        with as_data_error(self.where(name)):
            return (self.path / name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """Open one file, to read a part of it."""
        return (self.path / name).open("rb")

    def names(self) -> list[str]:
        """Return the name of every file; links are followed, but no folder is entered twice."""
        return self._names

    def folders(self) -> list[str]:
        """Return the names of the visible folders directly in this one, sorted."""
        names = (child.name for child in self.path.iterdir() if child.is_dir())
        return sorted(name for name in names if not is_hidden(PurePath(name)))

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
        """Return the path."""
        return str(self.path / name)

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash of the path, size and times of each file."""
        return files_fingerprint(self.path / name for name in names)


def is_hidden(name: PurePath) -> bool:
    """True for a relative path that is hidden, such as ``.git/config`` and ``a/._0.txt``."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.parts)


class Zip(Files):
    """The files in a zip file; several threads may read at once."""

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        with as_data_error(self.path):
            return zipfile.ZipFile(self.path)

    def read(self, name: str) -> bytes:
        """Return the whole content of one file; its checksum is verified."""
        with as_data_error(self.where(name)):
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
        with as_data_error(self.path), tarfile.open(self.path) as archive:
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


def gunzip(content: bytes, name: str) -> bytes:
    """Return the uncompressed content; its length and checksum are verified."""
    with as_data_error(name), gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        return b"".join(_chunks(stream, name, len(content)))


def _chunks(stream: IO[bytes] | gzip.GzipFile, name: str, packed: int) -> Iterator[bytes]:
    """Yield the content of a compressed file, and never more than it may unpack to."""
    unpacked = 0
    while chunk := stream.read(_CHUNK):
        unpacked += len(chunk)
        check_unpacked(name, packed, unpacked)
        yield chunk


def file_type(path: Path) -> str:
    """Return the extension of a file in lower case, without that of its compression."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


@contextmanager
def plain_text(path: Path, encoding: str | None = None) -> Iterator[Path]:
    """Yield a file with the same text, unpacked and in UTF-8: the file itself if it is that.

    A file is unpacked if its name ends in ``.gz``. The default encoding is that of its byte order
    mark, else UTF-8.
    """
    is_packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if is_packed else path.open("rb") as file:
        first = file.read(4)
        marked = (name for mark, name in _BYTE_ORDER_MARKS.items() if first.startswith(mark))
        encoding = known_encoding(encoding or next(marked, "utf-8"))
        if not is_packed and encoding == "utf-8":
            yield path
            return
        file.seek(0)
        chunks = _chunks(file, str(path), path.stat().st_size)
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / (path.stem if is_packed else path.name)
            with plain.open("wb") as out:
                try:
                    if encoding != "utf-8":
                        chunks = (text.encode() for text in codecs.iterdecode(chunks, encoding))
                    out.writelines(chunks)
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{path} is not written in {encoding}: name another `encoding`, such as "
                        "latin-1"
                    ) from error
            yield plain


def known_encoding(name: str) -> str:
    """Return the usual name of a character encoding; raise a `DataError` for an unknown one."""
    try:
        "".encode(name)  # refuses codecs that are not encodings, such as rot13 and base64
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise DataError(
            f"`encoding` must be a name such as utf-8, latin-1, cp1252 or utf-16, got {name!r}"
        ) from error


def check_utf8(plain: Path, path: Path) -> None:
    """Raise a `DataError` that names ``path`` and the first line of ``plain`` that is not UTF-8."""
    with plain.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path} is not written in UTF-8 (line {number}): name its encoding, such as "
                    "latin-1 or cp1252: `encoding`"
                ) from error
