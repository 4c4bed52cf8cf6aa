"""Columns that number the rows: on new data they mean nothing, and a network would trust them."""

import re

import polars as pl

_FEWEST_ROWS = 30  # of fewer, an ascending column may be chance: a choice
_ROWS_LOOKED_AT = 10_000  # evenly spread over the table
_DISTINCT_SHARE = 0.9  # of an identifier's values: a choice
# A choice: the rank correlation with the row number. Sorted values have 1; random ones stay below
# 0.999 by far, as its standard error is 1/sqrt(rows).
_FOLLOWS = 0.999
_SPARSE = 2  # an index of which every second row was dropped still counts as one: a choice
_COUNTED_SHARE = 0.9  # of an index's steps that are one up; the others restart it: a choice
_WRITTEN_INDEX = frozenset({"", "unnamed: 0", "__index_level_0__"})  # pandas' names for its index
_INDEX_NAMES = _WRITTEN_INDEX | {"index", "rowid", "row_id"}
_ID_NAME = re.compile(r"(?:(?i:(?:^|[_ -])id)|[a-z0-9]I[dD])$")


def identifier_reason(series: pl.Series) -> str | None:
    """Return why a column of numbers or dates says nothing but which row this is; None if not.

    Args:
        series: all values, in the order of the rows
    """
    present = _whole(series)
    has_enough = len(present) >= _FEWEST_ROWS and present.dtype != pl.Boolean
    if has_enough and _follows_rows(present):
        return "it follows the order of the rows"
    if present.dtype.is_integer() and _bare(series.name) in _WRITTEN_INDEX:
        return "it is the index of a data frame that was written beside the columns"
    if not has_enough:
        return None
    return _reason_of_numbers(present) if present.dtype.is_integer() else None


def _whole(series: pl.Series) -> pl.Series:
    """Return the values that are not missing, as integers if all of them are whole.

    Whole numbers become fractions in a column with missing values, as pandas has it.
    """
    if not series.dtype.is_float():
        return series.drop_nulls()
    present = series.fill_nan(None).drop_nulls()
    whole = present.cast(pl.Int64, strict=False)
    return whole if len(whole) and (whole == present).fill_null(False).all() else present


def _reason_of_numbers(present: pl.Series) -> str | None:
    is_named = _is_named_as_one(present.name)
    steps = present.cast(pl.Int64, strict=False).diff()
    if is_named and (steps == 1).sum() >= _COUNTED_SHARE * len(present):
        return "it counts the rows, several times from the start"
    low, high = present.min(), present.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    if high - low + 1 < len(present) or present.n_unique() < len(present):
        return None
    if is_named or high - low < _SPARSE * len(present):
        return "it is an identifier, another whole number in every row"
    return None


def _follows_rows(series: pl.Series) -> bool:
    step = max(1, len(series) // _ROWS_LOOKED_AT)
    sample = series.gather_every(step)
    if sample.n_unique() < _DISTINCT_SHARE * len(sample):
        return False
    ranks = pl.DataFrame({"rank": sample.rank(), "row": range(len(sample))})
    correlation = ranks.select(pl.corr("rank", "row")).item()
    return bool(abs(correlation) >= _FOLLOWS)


def _is_named_as_one(name: str) -> bool:
    """True for names such as id, customer_id, CustomerId and userID, but not Paid."""
    return _bare(name) in _INDEX_NAMES or _ID_NAME.search(name.strip()) is not None


def _bare(name: str) -> str:
    return name.strip().lower()
