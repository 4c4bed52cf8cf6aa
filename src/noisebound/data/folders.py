"""Where data lies on this machine, and files that are never seen half-written."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch

from noisebound.data.errors import DataError

DEBIAN_DATASETS = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist installs


def cache_folder() -> Path:
    """``NOISEBOUND_CACHE``, or the user's cache folder as the system has it."""
    return Path(os.environ.get("NOISEBOUND_CACHE") or pooch.os_cache("noisebound"))


def search_folders(data_dir: str | Path | None) -> list[Path]:
    """Where published files are looked for, first to last."""
    named = data_dir or os.environ.get("NOISEBOUND_DATA")
    first = [Path(named).absolute()] if named else []
    if first and not first[0].is_dir():
        raise DataError(f"{first[0]}, named as the folder of the data, is not a folder")
    return [*first, cache_folder(), DEBIAN_DATASETS]


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write to, which becomes ``path`` only when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # a name of its own, since another process may be writing the same file
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
