"""Hashes of files that are too large to be read at once."""

import hashlib
from pathlib import Path


def hash_of_file(path: Path) -> str:
    """Return a hash of every byte of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
