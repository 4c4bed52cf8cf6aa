"""The folders of this machine in which data is looked for."""

import atexit
import os
import tempfile
from pathlib import Path

import pooch

from noisebound.errors import DataError

DEBIAN_DATASETS = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist installs


def cache_folder() -> Path:
    """Return the folder that ``NOISEBOUND_CACHE`` names, else the user's cache folder."""
    return Path(os.environ.get("NOISEBOUND_CACHE") or pooch.os_cache("noisebound"))


def temporary_file(folder: Path, ending: str) -> Path:
    """Return the path of an empty file in a folder, which is removed when the process ends."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=ending, delete=False) as file:
        path = Path(file.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def search_folders(data_dir: str | Path | None) -> list[Path]:
    """Return the folders in which published files are looked for, in the order of search.

    Args:
        data_dir: the first folder; None for the one that ``NOISEBOUND_DATA`` names, if any
    """
    named = data_dir or os.environ.get("NOISEBOUND_DATA")
    first = [Path(named).absolute()] if named else []
    if first and not first[0].is_dir():
        origin = "`data_dir`" if data_dir else "NOISEBOUND_DATA"
        raise DataError(f"{origin} must be a folder, got {first[0]}")
    return [*first, cache_folder(), DEBIAN_DATASETS]
