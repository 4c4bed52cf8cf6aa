"""Tables as files: CSV, TSV, JSON lines, Parquet and Excel, as lazy frames."""

import codecs
import subprocess
import sys
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PanicException

from noisebound.data.formats.csv_files import read_csv
from noisebound.data.formats.text_files import check_utf8, file_type, plain_text
from noisebound.data.limits import check_unpacked
from noisebound.data.missing import nulls_for_missing
from noisebound.data.reading import reading
from noisebound.errors import DataError, MissingExtraError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_PARQUET = frozenset({".parquet", ".pq"})
_EXCEL = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})
TABLE_TYPES = (*_SEPARATORS, *sorted(_JSON_LINES | _PARQUET | _EXCEL))
"""The endings of the files that are tables; all but Parquet and Excel may have ``.gz`` after it."""

_BYTES_PER_TEXT = 16  # that polars holds for a text beside its letters
_MOST_LISTED = 5  # of rows that were left out


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table, and what of its file is not in it.

    Args:
        frame: the rows
        left_out: the positions that the rows which were left out had in the file, counted from 0
    """

    frame: pl.LazyFrame
    left_out: tuple[int, ...] = ()

    def positions(self, count: int) -> list[int]:
        """Return the position in the file of each of the ``count`` rows."""
        everything = np.arange(count + len(self.left_out))
        positions: list[int] = np.delete(everything, self.left_out).tolist()
        return positions

    def notes(self) -> tuple[str, ...]:
        """Return what to tell the user of the rows that were left out."""
        if not self.left_out:
            return ()
        count = len(self.left_out)
        more = f" and {count - _MOST_LISTED} more" if count > _MOST_LISTED else ""
        shown = ", ".join(str(position) for position in self.left_out[:_MOST_LISTED])
        return (
            f"{count} rows with more fields than the header were left out (counted from 0: "
            f"{shown}{more})",
        )


def is_table(path: Path) -> bool:
    """True if the name is that of a table."""
    return file_type(path) in TABLE_TYPES


def read_table_file(
    path: Path,
    *,
    encoding: str | None = None,
    written: Collection[str] = (),
    skip_bad: bool = False,
) -> TableFile:
    """Return the table of a file, with null for words such as NA; a large one stays on the disk.

    Args:
        path: the file
        encoding: how a CSV or JSON file writes letters as bytes; None for UTF-8
        written: columns that a CSV file gives as text even if they are all digits
        skip_bad: True to leave out lines with too many fields
    """
    kind = file_type(path)
    if encoding is not None and kind in _PARQUET | _EXCEL:
        raise DataError(f"`encoding` does not apply to {path.name}: leave it out")
    left_out: tuple[int, ...] = ()
    with reading(path, remedy="look at the file"):
        try:
            if kind in _PARQUET:
                frame = _scan_parquet(path)
            elif kind in _EXCEL:
                frame = _read_excel(path)
            elif kind in _JSON_LINES:
                with plain_text(path, encoding) as plain:
                    frame = _read_json_lines(plain, path)
            else:
                with plain_text(path, encoding) as plain:
                    frame, left_out = read_csv(plain, path, _SEPARATORS[kind], written, skip_bad)
            frame = nulls_for_missing(_with_bare_names(frame))
            is_empty = frame.head(1).collect().is_empty()
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
    if is_empty:
        raise DataError(f"{path} has no rows")
    return TableFile(frame, left_out)


def _with_bare_names(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the table with names of columns that have no spaces around them."""
    bare = {name: name.strip() for name in frame.collect_schema().names()}
    return frame.rename(bare) if len(set(bare.values())) == len(bare) else frame


def _read_json_lines(plain: Path, path: Path) -> pl.LazyFrame:
    """Return the file; polars takes the mark that some editors write at its start for damage."""
    with plain.open("rb") as file:
        has_mark = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        source = file.read() if has_mark else plain
    try:
        return pl.read_ndjson(source, infer_schema_length=None).lazy()
    except pl.exceptions.PolarsError:
        check_utf8(plain, path)
        raise


def _scan_parquet(path: Path) -> pl.LazyFrame:
    """Return the file, after another process has read it: some damaged files abort their reader."""
    rows, width = _parquet_size(path)
    check_unpacked(str(path), path.stat().st_size, rows * width)
    _run_apart(_READ_ALL, path)
    return pl.scan_parquet(path)


def _parquet_size(path: Path) -> tuple[int, int]:
    """Return the number of rows that the file claims to have, and the bytes that each will take."""
    rows, *dtypes = _run_apart(_DESCRIBE, path).splitlines()
    return int(rows), sum(int(width) for width in dtypes)


_WIDTH = f"""
def width(dtype):
    if dtype.is_nested():
        return {_BYTES_PER_TEXT} + sum(
            width(inner) for inner in [getattr(dtype, "inner", None)] if inner is not None
        )
    name = str(dtype)
    bits = "".join(letter for letter in name if letter.isdigit())
    return int(bits) // 8 if dtype.is_numeric() and bits else 1 if name == "Boolean" else (
        8 if dtype.is_temporal() else {_BYTES_PER_TEXT}
    )
"""
_DESCRIBE = f"""
import sys, polars
{_WIDTH}
scan = polars.scan_parquet(sys.argv[1])
print(scan.select(polars.len()).collect().item())
for dtype in scan.collect_schema().dtypes():
    print(width(dtype))
"""
_READ_ALL = """
import sys, polars
for block in polars.scan_parquet(sys.argv[1]).collect_batches(maintain_order=False):
    pass
"""


def _run_apart(script: str, path: Path) -> str:
    trial = subprocess.run([sys.executable, "-c", script, path], capture_output=True, check=False)
    if trial.returncode:
        said = trial.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise pl.exceptions.ComputeError(said[-1] if trial.returncode > 0 else said[0])
    return trial.stdout.decode()


def _read_excel(path: Path) -> pl.LazyFrame:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        check_unpacked(str(path), path.stat().st_size, unpacked)
    try:
        return pl.read_excel(path, infer_schema_length=None).lazy()
    except ImportError as error:
        raise MissingExtraError(f"reading {path.name}", "fastexcel", "excel") from error
