"""Tables in files and data frames, as polars frames."""

import atexit
import codecs
import csv
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PanicException

from noisebound.data.archives import (
    as_data_error,
    check_unpacked,
    check_utf8,
    file_type,
    plain_text,
)
from noisebound.data.cache import cache_folder
from noisebound.data.column_types import (
    LEADING_ZERO,
    MISSING_FIELDS,
    listed_names,
    nulls_for_missing,
)
from noisebound.data.options import ReadingOptions
from noisebound.errors import DataError, MissingExtraError


def without_surrogates(text: str) -> str:
    r"""Return a text with lone UTF-16 surrogates replaced, and pairs of them joined.

    Programs that count in UTF-16 leave half an emoji where they cut a text. No table, file or
    tokenizer takes it.

    Example:
        >>> without_surrogates("x \ud83d y") == "x \ufffd y"
        True
        >>> without_surrogates("\ud83d\ude00") == "\U0001f600"
        True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_frame(data: object) -> bool:
    """True for a data frame of polars or pandas.

    Raises:
        DataError: the frame is lazy, so that its rows may change between two reads
    """
    if isinstance(data, pl.LazyFrame):
        raise DataError(
            "expected a data frame, got a LazyFrame: call .collect() on it and pass that"
        )
    return isinstance(data, pl.DataFrame) or is_pandas(data, "DataFrame")


def as_lazy(data: Any) -> pl.LazyFrame:
    """Return a lazy frame of polars."""
    return data if isinstance(data, pl.LazyFrame) else as_polars(data).lazy()


def as_table(data: Any) -> pl.DataFrame:
    """Return a polars frame with null wherever a file with the same values would have it."""
    return nulls_for_missing(as_polars(data).lazy()).collect()


def as_polars(data: Any) -> pl.DataFrame:
    """Return a polars frame; a pandas frame is copied column by column, without its index."""
    if isinstance(data, pl.DataFrame):
        return data
    if not is_pandas(data, "DataFrame"):
        raise DataError(
            f"expected a data frame of polars or pandas, got {type(data).__name__}: pass a frame, "
            "or save the table as CSV or Parquet and pass its path"
        )
    names = [str(name) for name in data.columns]  # 1 and "1" are two names in pandas alone
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"the frame has several columns called {repeated[0]!r}: rename them")
    return pl.DataFrame([_column(str(name), data[name]) for name in data.columns])


def is_pandas(data: object, name: str) -> bool:
    """True for a pandas object of this class; pandas is not imported to find out."""
    kind = type(data)
    return kind.__name__ == name and kind.__module__.partition(".")[0] == "pandas"


def _column(name: str, column: Any) -> pl.Series:
    values = column.to_numpy()
    if values.dtype.kind in "biufMm":
        return pl.Series(name, values, nan_to_null=True)
    # Text and mixtures hold None, NaN or NaT for missing values.
    present = [
        None if gone else without_surrogates(value) if isinstance(value, str) else value
        for value, gone in zip(values, column.isna(), strict=True)
    ]
    with suppress(pl.exceptions.PolarsError, TypeError, ValueError):
        found = pl.Series(name, present, strict=False)
        if found.dtype != pl.Object:
            return found
    # Periods, intervals, paths and mixtures become text.
    return pl.Series(name, [None if value is None else str(value) for value in present], pl.String)


_ROWS_FOR_SEPARATOR = 20  # lines; heuristic
_MARKS = ",;\t|"
_CHUNK = 2**20
_IN_MEMORY = 2**29  # bytes; heuristic: a larger CSV file becomes a Parquet file on the disk


def _read_csv(
    plain: Path, path: Path, separator: str, raw_columns: Collection[str], skip_bad: bool
) -> tuple[pl.LazyFrame, tuple[int, ...]]:
    """Return the table of a plain UTF-8 file, and the positions of the records left out.

    The first record after the header has position 0. Messages name ``path``, the user's file.
    """
    separator = _separator(plain, separator)
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), [])
        newlines = file.newlines
    if newlines == "\r":
        raise DataError(
            f"the lines of {path} end in bare carriage returns, as old Macintosh programs wrote "
            "them: save it with line feeds (in Excel as 'CSV UTF-8')"
        )
    if not header:
        raise DataError(f"{path} cannot be read: it has no header, which names the columns")
    repeated = [name for name in header if name and header.count(name) > 1]
    if repeated:
        raise DataError(f"{path} has several columns called {repeated[0]!r}: rename all but one")
    try:
        return _read(plain, separator, raw_columns), ()
    except pl.exceptions.PolarsError:
        check_utf8(plain, path)
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / plain.name
            ragged = _copy_whole_records(plain, whole, separator, len(header))
            if not ragged:
                raise
            if skip_bad:
                return _read(whole, separator, raw_columns), tuple(ragged)
        line, fields = next(iter(ragged.values()))
        raise DataError(
            f"{path} cannot be read: the record that ends in line {line} has {fields} fields, and "
            f"the header has {len(header)}; quote the fields that hold a separator, or leave such "
            "lines out: `skip_bad`"
        ) from None


def _read(plain: Path, separator: str, raw_columns: Collection[str]) -> pl.LazyFrame:
    """Return the table with each column in the narrowest type for all its values."""
    lazy = pl.scan_csv(
        plain, separator=separator, null_values=list(MISSING_FIELDS), infer_schema=False
    )
    is_small = plain.stat().st_size <= _IN_MEMORY
    lazy = lazy.collect().lazy() if is_small else _on_disk(lazy)
    casts = [
        _narrowest(lazy.select(name).collect().to_series())
        for name in lazy.collect_schema().names()
        if name.strip() not in raw_columns
    ]
    typed = lazy.with_columns(casts)
    return typed.collect().lazy() if is_small else typed


def _on_disk(lazy: pl.LazyFrame) -> pl.LazyFrame:
    folder = cache_folder() / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    # Only this process uses the file, since the next one may see another table.
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".parquet", delete=False) as file:
        stored = Path(file.name)
    atexit.register(stored.unlink, missing_ok=True)
    lazy.sink_parquet(stored)
    return pl.scan_parquet(stored)


def _narrowest(texts: pl.Series) -> pl.Expr:
    """Return the column as integers, floats or booleans, if all its values fit.

    Codes such as ``04398`` stay text.
    """
    column = pl.col(texts.name)
    if texts.str.contains(LEADING_ZERO).any():
        return column
    for dtype in (pl.Int64, pl.Int128, pl.Float64):
        if texts.cast(dtype, strict=False).null_count() == texts.null_count():
            return column.cast(dtype)
    if texts.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return column.str.to_lowercase() == "true"
    return column


def _copy_whole_records(
    plain: Path, copy: Path, separator: str, width: int
) -> dict[int, tuple[int, int]]:
    """Write the records that have no more fields than the header.

    Returns the position of each of the others, with the line it ends in and its number of fields.
    """
    ragged = {}
    with (
        plain.open(encoding="utf-8-sig", newline="") as file,
        copy.open("w", encoding="utf-8", newline="") as out,
    ):
        reader, writer = csv.reader(file, delimiter=separator), csv.writer(out, delimiter=separator)
        for position, record in enumerate(reader, start=-1):  # the header
            if len(record) <= width:
                writer.writerow(record)
            else:
                ragged[position] = (reader.line_num, len(record))
    return ragged


def _separator(plain: Path, usual: str) -> str:
    """Return the usual separator, unless the first records fit another one better.

    A separator fits if every record has as many fields as the header. The one with most fields
    wins, so commas in names and numbers do no harm in a file of semicolons.
    """
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = [file.readline(_CHUNK) for _ in range(_ROWS_FOR_SEPARATOR)]
    marks = [usual, *(mark for mark in _MARKS if mark != usual)]  # the first of equals wins
    best = max(marks, key=lambda mark: _width(lines, mark))
    if _width(lines, best) > 1:
        return best
    return usual if usual in lines[0] else max(marks, key=lines[0].count)


def _width(lines: list[str], mark: str) -> int:
    """Return how many fields all records have, 0 if they differ; the last one may be cut."""
    try:
        records = [record for record in csv.reader(lines, delimiter=mark) if record]
    except csv.Error:  # such as a field larger than any
        return 0
    widths = {len(record) for record in (records[:-1] if lines[-1] else records)}
    return widths.pop() if len(widths) == 1 else 0


_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_PARQUET = frozenset({".parquet", ".pq"})
_EXCEL = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})
TABLE_TYPES = (*_SEPARATORS, *sorted(_JSON_LINES | _PARQUET | _EXCEL))
"""The extensions of tables; ``.gz`` may follow, except after Parquet and Excel."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table that was read from a file.

    Args:
        frame: the rows
        left_out: the positions in the file, from 0, of rows that were left out
    """

    frame: pl.LazyFrame
    left_out: tuple[int, ...] = ()

    def positions(self, count: int) -> list[int]:
        """Return the position in the file of each of the ``count`` rows."""
        everything = np.arange(count + len(self.left_out))
        return list(map(int, np.delete(everything, self.left_out)))

    def notes(self) -> tuple[str, ...]:
        """Return a note on the rows that were left out."""
        if not self.left_out:
            return ()
        shown = listed_names([str(position) for position in self.left_out], most=5)
        return (
            f"{len(self.left_out)} rows with more fields than the header were left out (counted "
            f"from 0: {shown})",
        )


def is_table(path: Path) -> bool:
    """True if a file's extension is that of a table."""
    return file_type(path) in TABLE_TYPES


def read_table_file(
    path: Path, options: ReadingOptions, raw_columns: Collection[str] = ()
) -> TableFile:
    """Return the table of a file, with null for words such as NA; a large one stays on the disk.

    A CSV file gives ``raw_columns`` as text even if they are all digits.
    """
    kind, encoding = file_type(path), options.encoding
    if encoding is not None and kind in _PARQUET | _EXCEL:
        raise DataError(f"`encoding` does not apply to {path.name}: leave it out")
    left_out: tuple[int, ...] = ()
    with as_data_error(path, remedy="look at the file"):
        try:
            if kind in _PARQUET:
                frame = _scan_parquet(path)
            elif kind in _EXCEL:
                frame = _read_excel(path)
            else:
                with plain_text(path, encoding) as plain:
                    if kind in _JSON_LINES:
                        frame = _read_json_lines(plain, path)
                    else:
                        mark = _SEPARATORS[kind]
                        frame, left_out = _read_csv(
                            plain, path, mark, raw_columns, options.skip_bad
                        )
            bare = {name: name.strip() for name in frame.collect_schema().names()}
            frame = frame.rename(bare) if len(set(bare.values())) == len(bare) else frame
            frame = nulls_for_missing(frame)
            is_empty = frame.head(1).collect().is_empty()
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
    if is_empty:
        raise DataError(f"{path} has no rows")
    return TableFile(frame, left_out)


def _read_json_lines(plain: Path, path: Path) -> pl.LazyFrame:
    """Return the file without a byte order mark, which polars refuses."""
    with plain.open("rb") as file:
        has_mark = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        source = file.read() if has_mark else plain
    try:
        return pl.read_ndjson(source, infer_schema_length=None).lazy()
    except pl.exceptions.PolarsError:
        check_utf8(plain, path)
        raise


def _scan_parquet(path: Path) -> pl.LazyFrame:
    """Return the file, after a check of the sizes of its columns once they are unpacked."""
    frame = pl.scan_parquet(path)
    rows = frame.select(pl.len()).collect().item()
    width = sum(_least_bytes(dtype) for dtype in frame.collect_schema().dtypes())
    check_unpacked(str(path), path.stat().st_size, rows * width)
    return frame


def _least_bytes(dtype: pl.DataType) -> int:
    """Return the least memory that polars needs for one value."""
    if dtype.is_numeric() and (bits := "".join(filter(str.isdigit, str(dtype)))):
        return int(bits) // 8
    return 1 if dtype == pl.Boolean else 8 if dtype.is_temporal() else 16


def _read_excel(path: Path) -> pl.LazyFrame:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        check_unpacked(str(path), path.stat().st_size, unpacked)
    try:
        return pl.read_excel(path, infer_schema_length=None).lazy()
    except ImportError as error:
        raise MissingExtraError(f"reading {path.name}", "fastexcel", "excel") from error
