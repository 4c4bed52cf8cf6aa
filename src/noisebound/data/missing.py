"""Words that stand where a value is missing: the same in files of every format and in frames."""

import polars as pl

MISSING_FIELDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""What a field of text holds where its value is missing, whatever the column is taken for."""


def nulls_for_missing(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return a table whose columns of strings have null where they hold a word for missing.

    A CSV file has no other way to say it. The same rows in a format that knows null beside such
    words would otherwise have categories and classes that the CSV file does not have.
    """
    columns = [
        _null_for_missing(pl.col(name))
        for name, dtype in frame.collect_schema().items()
        if dtype in (pl.String, pl.Categorical, pl.Enum)
    ]
    return frame.with_columns(columns)


def _null_for_missing(column: pl.Expr) -> pl.Expr:
    is_missing = column.cast(pl.String).is_in(MISSING_FIELDS)
    return pl.when(is_missing).then(None).otherwise(column).name.keep()
