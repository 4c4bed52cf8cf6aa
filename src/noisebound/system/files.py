"""Atomic writes, and tensors on disk with a checksum."""

import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape as glob_escaped
from pathlib import Path
from typing import Any, BinaryIO

import torch
from jaxtyping import Shaped
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from noisebound.errors import DataError

PARTS = ".*.part"
"""Names of unfinished files, which a killed process may leave behind."""

_HEADER = "noisebound"
_ABANDONED_SECONDS = 24 * 3600.0  # heuristic: no file takes a day to write


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to, which is renamed to ``path`` on success."""
    # A unique name, because another process may be writing the same file.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        yield part
        sync(part)
        part.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a full disk names no file
        raise
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with written_whole(path) as part:
        part.write_bytes(content)


def add_lines(path: Path, lines: Iterable[str]) -> None:
    """Append all lines to a file or none, and wait until they are on the disk.

    An unfinished last line of a killed process stays a separate line. The caller holds a lock
    that all writers of the file share.
    """
    content = "".join(f"{line}\n" for line in lines).encode()
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            content = content if file.read(1) == b"\n" else b"\n" + content
        try:
            while content:
                content = content[os.write(file.fileno(), content) :]
        except BaseException:
            os.ftruncate(file.fileno(), end)
            raise
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until a file is on the disk, so that it survives a power failure."""
    with path.open("rb") as written:
        os.fsync(written.fileno())


def _remove_abandoned(path: Path) -> None:
    """Remove unfinished copies of this file that killed processes left behind."""
    for part in path.parent.glob(f".{glob_escaped(path.name)}.????????.part"):
        with suppress(OSError):  # another process may have removed it
            if time.time() - part.stat().st_mtime > _ABANDONED_SECONDS:
                part.unlink()


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON, whole or not at all; NaN and infinity are refused."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a safetensors file with a JSON record in its header and a checksum over both.

    The tensors may share memory and be on any device.
    """
    # Clones, because safetensors refuses tensors that share memory, such as tied weights.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    text = json.dumps(about, sort_keys=True)
    # One entry, because safetensors does not keep the order of several, and equal content must
    # give equal files.
    header = json.dumps({"about": text, "digest": _digest(copies, text)})
    with written_whole(path) as part:
        try:
            save_file(copies, part, metadata={_HEADER: header})
        except SafetensorError as error:  # it names the system's error, such as that of a full disk
            number = re.search(r"\(os error (\d+)\)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def load_tensors(path: Path, *, verify: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the record that :func:`save_tensors` or :func:`save_rows` wrote.

    A damaged file, or one of another format, is a `DataError`. To verify the checksum, the whole
    file is read.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            header = json.loads((stored.metadata() or {})[_HEADER])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        about, digest = header["about"], header["digest"]
    except FileNotFoundError:
        raise
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged or of another format: {error}") from error
    if verify and _digest(tensors, about) != digest:
        raise DataError(f"{path} is damaged: its content does not match its checksum")
    return tensors, json.loads(about)


def _digest(tensors: Mapping[str, Tensor], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(_signature(name, tuple(value.shape), value.dtype))
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _signature(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    return f"{name} {shape} {dtype}".encode()


def fingerprint(tensor: Tensor) -> str:
    """Hash of a tensor's shape, type and every byte."""
    return fingerprint_of_blocks(tensor.shape, tensor.dtype, [tensor])


def fingerprint_of_blocks(
    shape: Sequence[int], dtype: torch.dtype, blocks: Iterable[Tensor]
) -> str:
    """Hash of a tensor from its blocks of rows, equal to the hash of the whole tensor."""
    digest = hashlib.sha256(f"{tuple(shape)} {dtype}".encode())
    for block in blocks:
        digest.update(block.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fingerprint_of_texts(texts: Sequence[str | None]) -> str:
    """Hash of every text, in order."""
    digest = hashlib.sha256(f"{len(texts)} texts".encode())
    for text in texts:
        content = b"" if text is None else text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def save_rows(
    path: Path,
    rows: Iterable[Shaped[Tensor, "_ ..."]],
    shape: tuple[int, ...],
    others: Mapping[str, Tensor],
    about: Mapping[str, Any],
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a tensor that may exceed the memory, in the format of :func:`load_tensors`.

    The tensor, named ``"rows"``, comes part after part; ``shape`` and ``dtype`` are those of the
    whole. The ``others`` are small, are written after it, and come after it in the alphabet.
    """
    text = json.dumps(about, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    header, offset = {}, 0
    named: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {"rows": (dtype, shape)}
    named |= {name: (value.dtype, tuple(value.shape)) for name, value in others.items()}
    for name, (kind_of, size) in named.items():
        end = offset + math.prod(size) * kind_of.itemsize
        kind = _SAFETENSORS_TYPES[kind_of]
        header[name] = {"dtype": kind, "shape": list(size), "data_offsets": [offset, end]}
        offset = end
    with written_whole(path) as part, part.open("wb") as file:
        _write_header(file, header, text, "0" * 64)  # the checksum is known when all is written
        digest.update(_signature("rows", shape, dtype))
        for values in rows:
            _write_tensor(file, values, digest)
        for name, value in sorted(others.items()):
            digest.update(_signature(name, tuple(value.shape), value.dtype))
            _write_tensor(file, value, digest)
        file.seek(0)
        _write_header(file, header, text, digest.hexdigest())


_SAFETENSORS_TYPES = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8"}


def _write_header(file: BinaryIO, tensors: Mapping[str, Any], about: str, digest: str) -> None:
    metadata = {_HEADER: json.dumps({"about": about, "digest": digest})}
    content = json.dumps({"__metadata__": metadata, **tensors}).encode()
    content += b" " * (-len(content) % 8)  # so that the numbers are aligned
    file.write(len(content).to_bytes(8, "little") + content)


def _write_tensor(file: BinaryIO, values: Tensor, digest: "hashlib._Hash") -> None:
    content = values.contiguous().flatten().view(torch.uint8).numpy().data
    digest.update(content)
    file.write(content)
