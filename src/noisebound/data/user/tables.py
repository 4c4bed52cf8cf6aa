"""CSV, TSV and Parquet: a column of labels, and the others as numbers."""

import gzip
import subprocess
import sys
from pathlib import Path

import polars as pl
import torch
from polars.exceptions import PanicException

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.labels import encode_labels
from noisebound.data.reading import reading
from noisebound.data.table_encoder import TableEncoder
from noisebound.errors import DataError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}
_FEW_CLASSES = 20
_NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]


def is_table(path: Path) -> bool:
    """Whether the name is that of a table."""
    return _suffix(path) in _SEPARATORS.keys() | _PARQUET


def read_table(path: Path, target: str | None, skip_bad: bool = False) -> Splits:
    """Every column but ``target`` as features; what was done to them is in the notes."""
    frame = read_frame(path)
    if target is None:
        raise DataError(f"name the column of labels with --target; {path} has {_listed(frame)}")
    if target not in frame.columns:
        raise DataError(f"{path} has no column {target!r}; it has {_listed(frame)}")
    has_label = frame[target].is_not_null()
    frame, notes = _with_labels(frame, target, path, skip_bad)
    indices, class_names = encode_labels(frame[target].to_list())
    if len(class_names) < 2:
        raise DataError(f"column {target!r} of {path} has one class only, {class_names[0]!r}")
    if len(class_names) > max(_FEW_CLASSES, len(frame) // 2):
        raise DataError(
            f"column {target!r} of {path} has {len(class_names)} distinct values in {len(frame)} "
            "rows: it does not look like a class; name another with --target"
        )
    encoder = TableEncoder.fit(frame.drop(target))
    data = Dataset(encoder.transform(frame), torch.from_numpy(indices), class_names)
    return Splits(
        path.name,
        data,
        None,
        source=str(path),
        notes=(*notes, *encoder.notes),
        encoder=encoder,
        train_names=tuple(str(row) for row in has_label.arg_true()),
    )


def read_frame(path: Path) -> pl.DataFrame:
    """The table as it is."""
    with reading(path, remedy="look at the file"):
        try:
            frame = _read_parquet(path) if _suffix(path) in _PARQUET else _read_csv(path)
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
    if frame.is_empty():
        raise DataError(f"{path} has no rows")
    return frame


def _read_parquet(path: Path) -> pl.DataFrame:
    """Tried first in a process of its own: some damaged files make polars abort the whole of it."""
    attempt = "import sys, polars; polars.read_parquet(sys.argv[1])"
    trial = subprocess.run([sys.executable, "-c", attempt, path], capture_output=True, check=False)
    if trial.returncode:
        said = trial.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise pl.exceptions.ComputeError(said[-1] if trial.returncode > 0 else said[0])
    return pl.read_parquet(path)


def _read_csv(path: Path) -> pl.DataFrame:
    frame = pl.read_csv(
        path,
        separator=_separator(path),
        null_values=_NULLS,
        infer_schema_length=None,  # all rows: a late fraction must not be an error
        try_parse_dates=True,
    )
    repeated = [name for name in frame.columns if f"{name}_duplicated_0" in frame.columns]
    if repeated:
        raise DataError(f"{path} has several columns called {repeated[0]!r}: rename all but one")
    return frame


def _separator(path: Path) -> str:
    """That of the extension, unless the first line knows none but another."""
    usual = _SEPARATORS[_suffix(path)]
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        header = file.readline(1 << 16).decode(errors="replace")
    others = [mark for mark in ",;\t|" if mark in header]
    return usual if usual in header or not others else max(others, key=header.count)


def _with_labels(
    frame: pl.DataFrame, target: str, path: Path, skip_bad: bool
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    missing = frame[target].null_count()
    if missing == 0:
        return frame, ()
    if not skip_bad:
        raise DataError(
            f"{missing} of {len(frame)} rows of {path} have no label in column {target!r}: fill "
            "them in, or leave the rows out with --skip-bad (in Python: skip_bad=True)"
        )
    if missing == len(frame):
        raise DataError(f"column {target!r} of {path} is empty")
    return frame.drop_nulls(target), (f"{missing} rows without a label were left out",)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _listed(frame: pl.DataFrame, most: int = 30) -> str:
    more = f" and {len(frame.columns) - most} more" if len(frame.columns) > most else ""
    return f"the columns {', '.join(frame.columns[:most])}{more}"
