"""Hashes of files that are too large to be read at once, and of weights."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from noisebound.system.files import fingerprint


def hash_of_file(path: Path) -> str:
    """Return a hash of every byte of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_weights(weights: Mapping[str, Tensor]) -> str:
    """Return a hash of every weight, with its name."""
    digest = hashlib.sha256()
    for name, value in weights.items():
        digest.update(f"{name} {fingerprint(value.detach().cpu())}".encode())
    return digest.hexdigest()
