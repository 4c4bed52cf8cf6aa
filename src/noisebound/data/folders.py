"""The folders of this machine that data is looked for in."""

import os
from pathlib import Path

import pooch

from noisebound.errors import DataError

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
