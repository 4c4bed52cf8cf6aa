"""Files that are whole or absent, and tensors on disk that carry a checksum."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from noisebound.errors import DataError

_HEADER = "noisebound"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to, which becomes ``path`` only when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, since another process may be writing the same file.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write JSON for people and programs, whole or not at all; NaN and infinity are refused."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors and a JSON record about them, with a checksum over both.

    Args:
        path: the safetensors file, which is written whole or not at all
        tensors: by name; they may share memory and lie on any device
        about: what JSON can hold, stored in the file's header
    """
    # Clones, because safetensors refuses tensors that share memory, such as tied weights.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    text = json.dumps(about, sort_keys=True)
    # One entry, because safetensors writes several in any order, and equal files are to be equal.
    header = json.dumps({"about": text, "digest": _digest(copies, text)})
    with written_whole(path) as part:
        save_file(copies, part, metadata={_HEADER: header})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what :func:`save_tensors` wrote.

    Raises:
        FileNotFoundError: there is no such file
        DataError: the file is damaged, or was not written by :func:`save_tensors`
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
    if _digest(tensors, about) != digest:
        raise DataError(f"{path} is damaged: its content does not match its checksum")
    return tensors, json.loads(about)


def _digest(tensors: Mapping[str, Tensor], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fingerprint(tensor: Tensor) -> str:
    """Hash of a tensor's shape, type and every byte."""
    return fingerprint_of_blocks(tensor.shape, tensor.dtype, [tensor])


def fingerprint_of_blocks(
    shape: Sequence[int], dtype: torch.dtype, blocks: Iterable[Tensor]
) -> str:
    """Hash of a tensor that comes in blocks of rows, the same as that of the tensor as a whole."""
    digest = hashlib.sha256(f"{tuple(shape)} {dtype}".encode())
    for block in blocks:
        digest.update(block.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
