"""Tables in files as polars frames."""

import csv
import io
import json
import zipfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException

from noisebound.data.column_types import LEADING_ZERO, MISSING_FIELDS, nulls_for_missing
from noisebound.data.files import as_data_error, check_zip, read_utf8
from noisebound.data.frames import refuse_repeated
from noisebound.data.label_studio import is_export, table_of_export
from noisebound.errors import DataError, needed_for

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_JSON = ".json"
_PARQUET = frozenset({".parquet", ".pq"})
_EXCEL = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})
_TABLES = frozenset(_SEPARATORS) | {_JSON} | _JSON_LINES | _PARQUET | _EXCEL


def is_table(path: Path) -> bool:
    """True if a file's extension is that of a table; ``.gz`` may follow it."""
    return _file_type(path) in _TABLES


def _file_type(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_table_file(
    path: Path, encoding: str | None = None, raw_columns: Collection[str] = ()
) -> pl.DataFrame:
    """Return the table of a file, with null for words such as NA.

    A CSV file gives ``raw_columns`` as text even if they are all digits.
    """
    kind = _file_type(path)
    if encoding is not None and kind in _PARQUET | _EXCEL:
        raise DataError(f"`encoding` does not apply to {path.name}: leave it out")
    with as_data_error(path, remedy="look at the file"):
        try:
            if kind in _PARQUET:
                frame = pl.read_parquet(path)
            elif kind in _EXCEL:
                frame = _read_excel(path)
            elif kind == _JSON:
                frame = _read_json(read_utf8(path, encoding))
            elif kind in _JSON_LINES:
                frame = pl.read_ndjson(read_utf8(path, encoding), infer_schema_length=None)
            else:
                content = read_utf8(path, encoding)
                frame = _read_csv(content, path, _SEPARATORS[kind], raw_columns)
        except PanicException as error:  # not an Exception: polars' Rust gave up on the bytes
            raise pl.exceptions.ComputeError(str(error)) from error
        except pl.exceptions.PolarsError as error:
            if "utf-8" not in str(error).lower():
                raise
            raise DataError(
                f"{path} is not written in UTF-8: name its encoding, such as latin-1 or cp1252: "
                "`encoding`"
            ) from error
    if frame.is_empty():
        raise DataError(f"{path} has no rows")
    bare = {name: name.strip() for name in frame.columns}
    return nulls_for_missing(frame.rename(bare) if len(set(bare.values())) == len(bare) else frame)


def _read_csv(
    content: bytes, path: Path, separator: str, raw_columns: Collection[str]
) -> pl.DataFrame:
    """Return the table of a UTF-8 file, with each column in the narrowest type for all its values.

    Messages name ``path``, the user's file.
    """
    separator = _separator(content, separator)
    header = next(csv.reader(_lines(content), delimiter=separator), [])
    if not header:
        raise DataError(f"{path} cannot be read: it has no header, which names the columns")
    refuse_repeated(header, path)
    try:
        frame = pl.read_csv(
            content, separator=separator, null_values=list(MISSING_FIELDS), infer_schema=False
        )
    except pl.exceptions.ComputeError as error:
        reader = csv.reader(_lines(content), delimiter=separator)
        fields = next((len(record) for record in reader if len(record) > len(header)), None)
        if fields is None:
            raise
        raise DataError(
            f"{path} cannot be read: the record that ends in line {reader.line_num} has {fields} "
            f"fields, and the header has {len(header)}; quote the fields that hold a separator, or "
            "remove the line"
        ) from error
    return frame.with_columns(
        _narrowest(column) for column in frame if column.name.strip() not in raw_columns
    )


def _lines(content: bytes) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="replace", newline="")


def _narrowest(texts: pl.Series) -> pl.Series:
    """Return a column as integers, floats or booleans, if all its values fit.

    Codes such as ``04398`` stay text.
    """
    if texts.str.contains(LEADING_ZERO).any():
        return texts
    for dtype in (pl.Int64, pl.Int128, pl.Float64):
        numbers = texts.cast(dtype, strict=False)
        if numbers.null_count() == texts.null_count():
            return numbers
    lower = texts.str.to_lowercase()
    return lower == "true" if lower.drop_nulls().is_in(["true", "false"]).all() else texts


def _separator(content: bytes, usual: str) -> str:
    """Return the mark that divides the header into most fields; of equals, the usual one."""
    header = next(_lines(content), "")
    marks = [usual, *(mark for mark in ",;\t|" if mark != usual)]
    return max(marks, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def _read_json(content: bytes) -> pl.DataFrame:
    """Return the table of a list of records, or of Label Studio's export."""
    records = json.loads(content)
    if is_export(records):
        return table_of_export(records)
    return pl.from_dicts(records, infer_schema_length=None)


def _read_excel(path: Path) -> pl.DataFrame:
    with suppress(zipfile.BadZipFile):  # .xls is none
        check_zip(path, str(path), path.stat().st_size)
    with needed_for(f"reading {path.name}", "fastexcel", "excel"):
        return pl.read_excel(path, infer_schema_length=None)
