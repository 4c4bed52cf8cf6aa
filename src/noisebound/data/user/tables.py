"""CSV, TSV and Parquet: a column of labels, and the others as numbers."""

from pathlib import Path

import polars as pl
import torch
from polars.exceptions import PanicException

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.errors import DataError, reading
from noisebound.data.labels import encode_labels
from noisebound.data.table_encoder import TableEncoder

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}
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
    frame, notes = _with_labels(frame, target, path, skip_bad)
    indices, class_names = encode_labels(frame[target].to_numpy())
    if len(class_names) < 2:
        raise DataError(f"column {target!r} of {path} has one class only, {class_names[0]!r}")
    if len(class_names) > len(frame) // 2:
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
    )


def read_frame(path: Path) -> pl.DataFrame:
    """The table as it is."""
    with reading(path):
        try:
            frame = pl.read_parquet(path) if _suffix(path) in _PARQUET else _read_csv(path)
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
    if frame.is_empty():
        raise DataError(f"{path} has no rows")
    return frame


def _read_csv(path: Path) -> pl.DataFrame:
    return pl.read_csv(
        path,
        separator=_SEPARATORS[_suffix(path)],
        null_values=_NULLS,
        infer_schema_length=None,  # all rows: a late fraction must not be an error
        try_parse_dates=True,
    )


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
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix.lower()


def _listed(frame: pl.DataFrame, most: int = 30) -> str:
    more = f" and {len(frame.columns) - most} more" if len(frame.columns) > most else ""
    return f"the columns {', '.join(frame.columns[:most])}{more}"
