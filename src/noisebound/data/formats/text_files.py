"""Files of text: compressed or not, and in any encoding, as plain files of UTF-8."""

import codecs
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from noisebound.data.limits import check_unpacked, unpacked_limit
from noisebound.errors import DataError

_CHUNK = 2**20
_MARKS = {  # at the start of a file, they say its encoding; longer ones come first
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def file_type(path: Path) -> str:
    """Return the ending of a file's name in lower case, without that of its compression."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


@contextmanager
def plain_text(path: Path, encoding: str | None = None) -> Iterator[Path]:
    """Yield a file with the same text, unpacked and in UTF-8: the file itself if it is that.

    Args:
        path: the file; it is unpacked if its name ends in ``.gz``
        encoding: how it writes letters as bytes; None for UTF-8, or what the file's first bytes say
    """
    is_packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if is_packed else path.open("rb") as file:
        first = file.read(4)
    encoding = encoding or next((_MARKS[mark] for mark in _MARKS if first.startswith(mark)), None)
    if encoding is not None:
        encoding = known_encoding(encoding)
    if not is_packed and encoding in (None, "utf-8"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / (path.stem if is_packed else path.name)
        with gzip.open(path) if is_packed else path.open("rb") as file, plain.open("wb") as out:
            _copy(file, out, encoding or "utf-8", path)
        yield plain


def known_encoding(name: str) -> str:
    """Return the usual name of an encoding, or an error for a name that is none of texts."""
    try:
        "".encode(name)  # which refuses codecs that are no encodings, such as rot13 and base64
        return codecs.lookup(name).name
    except (LookupError, ValueError) as error:
        raise DataError(
            f"`encoding` must be a name such as utf-8, latin-1, cp1252 or utf-16, got {name!r}"
        ) from error


def check_utf8(plain: Path, path: Path) -> None:
    """Refuse a file that is not UTF-8, with the place where it is not.

    Args:
        plain: the file, not compressed
        path: the file that the user named, for the message
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with plain.open("rb") as file:
        is_last = False
        while not is_last:
            chunk = file.read(_CHUNK)
            is_last = not chunk
            try:
                line += decoder.decode(chunk, is_last).count("\n")
            except UnicodeDecodeError as error:
                line += chunk[: error.start].count(b"\n")
                raise DataError(
                    f"{path} is not written in UTF-8 (line {line}): say how it is written, such as "
                    "latin-1 or cp1252: `encoding`"
                ) from error


def _copy(file: IO[bytes] | gzip.GzipFile, out: IO[bytes], encoding: str, path: Path) -> None:
    """Write a file as UTF-8, part by part, and never more than it may unpack to."""
    packed = path.stat().st_size
    limit = unpacked_limit(packed)
    decoder = codecs.getincrementaldecoder(encoding)()
    is_same = encoding == "utf-8"
    seen = 0
    while chunk := file.read(_CHUNK):
        seen += len(chunk)
        if seen > limit:
            check_unpacked(str(path), packed, seen)
        out.write(chunk if is_same else _decoded(decoder, chunk, encoding, path))
    if not is_same:
        out.write(_decoded(decoder, b"", encoding, path, is_last=True))


def _decoded(
    decoder: codecs.IncrementalDecoder,
    chunk: bytes,
    encoding: str,
    path: Path,
    *,
    is_last: bool = False,
) -> bytes:
    try:
        return decoder.decode(chunk, is_last).encode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not written in {encoding}: name another `encoding`, such as latin-1"
        ) from error
