"""CSV, TSV and Parquet files: one column of labels, and the others as features."""

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
_FEW_CLASSES = 20  # so many distinct labels are classes, however few the rows
_NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]


def is_table(path: Path) -> bool:
    """True if the name is that of a table."""
    return _suffix(path) in _SEPARATORS.keys() | _PARQUET


def read_table(path: Path, target: str | None, skip_bad: bool = False) -> Splits:
    """Return a file's rows: the column ``target`` as labels, every other column as features."""
    return frame_splits(read_frame(path), target, skip_bad, name=path.name, source=str(path))


def frame_splits(
    frame: pl.DataFrame, target: str | None, skip_bad: bool, *, name: str, source: str
) -> Splits:
    """Return a frame's rows as examples; the notes say what was done to its columns.

    Args:
        frame: the table
        target: the column of labels
        skip_bad: True to leave out rows without a label
        name: what to call the data
        source: what to call its origin in messages
    """
    if target is None:
        raise DataError(f"name the column of labels: `target`; {source} has {_listed(frame)}")
    if target not in frame.columns:
        raise DataError(f"{source} has no column {target!r}; it has {_listed(frame)}")
    has_label = frame[target].is_not_null()
    frame, notes = _with_labels(frame, target, source, skip_bad)
    indices, class_names = encode_labels(frame[target].to_list())
    if len(class_names) < 2:
        raise DataError(f"column {target!r} of {source} has one class only, {class_names[0]!r}")
    if len(class_names) > max(_FEW_CLASSES, len(frame) // 2):
        raise DataError(
            f"column {target!r} of {source} has {len(class_names)} distinct values in {len(frame)} "
            "rows: it does not look like a class; name another column: `target`"
        )
    features = frame.drop(target)
    encoder = TableEncoder.fit(features)
    data = Dataset(encoder.transform(features), torch.from_numpy(indices), class_names)
    return Splits(
        name,
        data,
        None,
        source=source,
        notes=(*notes, *encoder.notes),
        encoder=encoder,
        frame=features,
        train_names=tuple(str(row) for row in has_label.arg_true()),
    )


def read_frame(path: Path) -> pl.DataFrame:
    """Return the table as it is in the file."""
    with reading(path, remedy="look at the file"):
        try:
            frame = _read_parquet(path) if _suffix(path) in _PARQUET else _read_csv(path)
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
    if frame.is_empty():
        raise DataError(f"{path} has no rows")
    return frame


def _read_parquet(path: Path) -> pl.DataFrame:
    """Read the file, first in another process: some damaged files make polars abort its own."""
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
    """Return the extension's separator, unless the first line uses only another one."""
    usual = _SEPARATORS[_suffix(path)]
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        header = file.readline(1 << 16).decode(errors="replace")
    others = [mark for mark in ",;\t|" if mark in header]
    return usual if usual in header or not others else max(others, key=header.count)


def _with_labels(
    frame: pl.DataFrame, target: str, source: str, skip_bad: bool
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    missing = frame[target].null_count()
    if missing == 0:
        return frame, ()
    if not skip_bad:
        raise DataError(
            f"{missing} of {len(frame)} rows of {source} have no label in column {target!r}: fill "
            "them in, or leave the rows out: `skip_bad`"
        )
    if missing == len(frame):
        raise DataError(f"column {target!r} of {source} is empty")
    return frame.drop_nulls(target), (f"{missing} rows without a label were left out",)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _listed(frame: pl.DataFrame, most: int = 30) -> str:
    more = f" and {len(frame.columns) - most} more" if len(frame.columns) > most else ""
    return f"the columns {', '.join(frame.columns[:most])}{more}"
