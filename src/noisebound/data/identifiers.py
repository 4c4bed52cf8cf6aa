"""Columns that number the rows: on new data they mean nothing, and a network would trust them."""

import polars as pl

_FEWEST_ROWS = 30  # of fewer, an ascending column may be chance: a choice
_ROWS_LOOKED_AT = 10_000  # evenly spread over the table
_DISTINCT_SHARE = 0.9  # of an identifier's values: a choice
# A choice: the rank correlation with the row number. Sorted values have 1; random ones stay below
# 0.999 by far, as its standard error is 1/sqrt(rows).
_FOLLOWS = 0.999
_SPARSE = 2  # an index of which every second row was dropped still counts as one: a choice
_INDEX_NAMES = frozenset({"", "unnamed: 0", "__index_level_0__", "index", "rowid", "row_id"})


def identifier_reason(series: pl.Series) -> str | None:
    """Return why a column of numbers or dates says nothing but which row this is; None if not.

    Args:
        series: all values, in the order of the rows
    """
    if len(series) < _FEWEST_ROWS or series.dtype == pl.Boolean:
        return None
    if _follows_rows(series):
        return "it follows the order of the rows"
    if not series.dtype.is_integer() or series.null_count():
        return None
    low, high = series.min(), series.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    if high - low + 1 < len(series) or series.n_unique() < len(series):
        return None
    is_numbering = high - low < _SPARSE * len(series)
    if is_numbering or _is_named_as_one(series.name):
        return "it is an identifier, another whole number in every row"
    return None


def _follows_rows(series: pl.Series) -> bool:
    step = max(1, len(series) // _ROWS_LOOKED_AT)
    sample = series.gather_every(step)
    if sample.null_count() or sample.n_unique() < _DISTINCT_SHARE * len(sample):
        return False
    ranks = pl.DataFrame({"rank": sample.rank(), "row": range(len(sample))})
    correlation = ranks.select(pl.corr("rank", "row")).item()
    return bool(abs(correlation) >= _FOLLOWS)


def _is_named_as_one(name: str) -> bool:
    lowered = name.strip().lower()
    return lowered in _INDEX_NAMES or lowered == "id" or lowered.endswith(("_id", " id", "-id"))
