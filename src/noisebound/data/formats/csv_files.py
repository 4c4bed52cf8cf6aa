"""CSV files as frames: fast where all is as the first rows promise, and right where it is not."""

import csv
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import polars as pl

from noisebound.data.column_types import LEADING_ZERO
from noisebound.data.folders import cache_folder, temporary_file
from noisebound.data.formats.text_files import check_utf8
from noisebound.data.missing import MISSING_FIELDS
from noisebound.errors import DataError

_ROWS_FOR_TYPES = 10_000  # a choice; a row beyond them that does not fit makes all be looked at
_ROWS_FOR_SEPARATOR = 20  # lines that tell what stands between fields: a choice
_MARKS = ",;\t|"
_CHUNK = 2**20
_IN_MEMORY = 2**29  # bytes of a file: a choice; a larger one becomes a Parquet file on the disk


def read_csv(
    plain: Path, path: Path, separator: str, written: Collection[str], skip_bad: bool
) -> tuple[pl.LazyFrame, tuple[int, ...]]:
    """Return the table, and the positions that records which were left out had in the file.

    A large table is read in parts and kept as Parquet, which needs no memory. The first record
    after the header has the position 0.

    Args:
        plain: the file, not compressed and in UTF-8
        path: the file that the user named, for messages
        separator: what stands between fields, unless the first lines fit another better
        written: columns that stay text even if they are all digits
        skip_bad: True to leave out lines with too many fields
    """
    _check_line_ends(plain, path)
    separator = _separator(plain, separator)
    header = _header(plain, separator, path)
    repeated = [name for name in header if name and header.count(name) > 1]
    if repeated:
        raise DataError(f"{path} has several columns called {repeated[0]!r}: rename all but one")
    try:
        schema = _schema(plain, separator, written)
        codes = _code_columns(plain, separator, schema)
        return _read(plain, separator, schema | dict.fromkeys(codes, pl.String())), ()
    except pl.exceptions.PolarsError:
        check_utf8(plain, path)
    ragged = _first_ragged_line(plain, separator, len(header))
    if ragged is None:
        # A value does not fit the type that the first rows have: all are read as text first.
        return _read_as_text(plain, separator, written), ()
    if not skip_bad:
        raise DataError(
            f"{path} cannot be read: the record that ends in line {ragged[0]} has {ragged[1]} "
            f"fields, and the header has {len(header)}; quote the fields that hold a separator, or "
            "leave such lines out: `skip_bad`"
        )
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / plain.name
        left_out = _copy_whole_records(plain, whole, separator, len(header))
        frame, _ = read_csv(whole, path, separator, written, skip_bad)
        return frame, left_out


def _read(plain: Path, separator: str, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    scan = pl.scan_csv(
        plain, separator=separator, null_values=list(MISSING_FIELDS), schema=dict(schema)
    )
    if plain.stat().st_size <= _IN_MEMORY:
        return scan.collect().lazy()
    folder = cache_folder() / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    # A file of this process alone, which goes away with it: the next one may see another table.
    stored = temporary_file(folder, ".parquet")
    scan.sink_parquet(stored)
    return pl.scan_parquet(stored)


def _schema(plain: Path, separator: str, written: Collection[str]) -> dict[str, pl.DataType]:
    """Return the types that the first rows have; dates are text, which a column's rule reads."""
    first = pl.read_csv(
        plain,
        separator=separator,
        null_values=list(MISSING_FIELDS),
        n_rows=_ROWS_FOR_TYPES,
        infer_schema_length=_ROWS_FOR_TYPES,
    )
    return {
        name: pl.String() if name.strip() in written else dtype
        for name, dtype in first.schema.items()
    }


def _code_columns(plain: Path, separator: str, schema: Mapping[str, pl.DataType]) -> list[str]:
    """Return the columns of whole numbers in which any row has a leading zero, as in ``04398``."""
    whole = [name for name, dtype in schema.items() if dtype.is_integer()]
    if not whole:
        return []
    texts = pl.scan_csv(plain, separator=separator, infer_schema=False)
    found = texts.select(pl.col(whole).str.contains(LEADING_ZERO).any()).collect(engine="streaming")
    return [name for name in whole if found[name].item()]


def _read_as_text(plain: Path, separator: str, written: Collection[str]) -> pl.LazyFrame:
    """Return the table with each column in the narrowest type that holds all its values."""
    header = pl.read_csv(plain, separator=separator, n_rows=0, infer_schema=False).columns
    lazy = _read(plain, separator, dict.fromkeys(header, pl.String()))
    casts = [
        _narrowest(lazy.select(name).collect().to_series())
        for name in header
        if name.strip() not in written
    ]
    return lazy.with_columns(casts)


def _narrowest(texts: pl.Series) -> pl.Expr:
    """Return the column as whole numbers, fractions or truth values, if all its values are such.

    Codes such as ``04398`` stay text.
    """
    column = pl.col(texts.name)
    if texts.str.contains(LEADING_ZERO).any():
        return column
    for dtype in (pl.Int64, pl.Float64):
        if texts.cast(dtype, strict=False).null_count() == texts.null_count():
            return column.cast(dtype)
    if texts.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return column.str.to_lowercase() == "true"  # in any case, as polars reads them
    return column


def _header(plain: Path, separator: str, path: Path) -> list[str]:
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), [])
    if not header:
        raise DataError(f"{path} cannot be read: it has no header, which names the columns")
    return header


def _check_line_ends(plain: Path, path: Path) -> None:
    """Refuse a file whose lines end in bare carriage returns, which would be read as one line."""
    with plain.open("rb") as file:
        start = file.read(_CHUNK)
    if b"\r" in start and b"\n" not in start:
        raise DataError(
            f"the lines of {path} end in bare carriage returns, as old Macintosh programs wrote "
            "them: save it with line feeds (in Excel as 'CSV UTF-8')"
        )


def _records(plain: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield every record, and the number of the line that it ends in."""
    with plain.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        for record in reader:
            yield reader.line_num, record


def _first_ragged_line(plain: Path, separator: str, width: int) -> tuple[int, int] | None:
    """Return the line and the number of fields of the first record with more than the header."""
    try:
        for line, record in _records(plain, separator):
            if len(record) > width:
                return line, len(record)
    except csv.Error:  # such as a field larger than any: another reader says what is wrong
        return None
    return None


def _copy_whole_records(plain: Path, copy: Path, separator: str, width: int) -> tuple[int, ...]:
    """Write the records that have no more fields than the header; return where the others are."""
    left_out = []
    with copy.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        for position, (_, record) in enumerate(_records(plain, separator), start=-1):  # the header
            if len(record) <= width:
                writer.writerow(record)
            else:
                left_out.append(position)
    return tuple(left_out)


def _separator(plain: Path, usual: str) -> str:
    """Return the usual separator, unless the first records fit another one better.

    A separator fits if it gives every record as many fields as the header, the more the better: so
    commas in the names of columns and in numbers do not make a file of semicolons one of commas.
    """
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = [file.readline(_CHUNK) for _ in range(_ROWS_FOR_SEPARATOR)]
    marks: list[str] = [usual, *(mark for mark in _MARKS if mark != usual)]
    widths = {mark: _widths(lines, mark) for mark in marks}
    fitting = [mark for mark in marks if len(widths[mark]) == 1 and max(widths[mark]) > 1]
    if fitting:
        return max(fitting, key=lambda mark: max(widths[mark]))  # of equals the usual one
    header = lines[0]
    if usual in header:
        return usual  # which of its records is wrong will be told
    return max(marks, key=header.count)


def _widths(lines: list[str], mark: str) -> set[int]:
    """Return the numbers of fields that records have; a last one may be cut, and is not counted."""
    try:
        records = [record for record in csv.reader(lines, delimiter=mark) if record]
    except csv.Error:  # such as a field larger than any
        return {0}
    whole = records[:-1] if lines[-1] else records  # else the file has ended before
    return {len(record) for record in whole} or {0}
