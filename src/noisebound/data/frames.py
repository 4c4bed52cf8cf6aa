"""Data frames of other libraries as polars has them."""

from collections import Counter
from typing import Any

import polars as pl

from noisebound.data.letters import whole_letters
from noisebound.data.missing import nulls_for_missing
from noisebound.errors import DataError


def is_frame(data: object) -> bool:
    """True if this is a data frame of polars or pandas; a lazy one of polars is refused.

    Raises:
        DataError: the frame is lazy, so that its rows may change between two readings
    """
    if isinstance(data, pl.LazyFrame):
        raise DataError(
            "expected a data frame, got a LazyFrame: call .collect() on it and pass that"
        )
    return isinstance(data, pl.DataFrame) or _is_pandas(data)


def as_lazy(data: Any) -> pl.LazyFrame:
    """Return a lazy frame of polars."""
    return data if isinstance(data, pl.LazyFrame) else as_polars(data).lazy()


def as_table(data: Any) -> pl.DataFrame:
    """Return a polars frame that has null wherever a file with the same values would have it."""
    return nulls_for_missing(as_polars(data).lazy()).collect()


def as_polars(data: Any) -> pl.DataFrame:
    """Return a polars frame; a pandas frame is copied column by column, without its index."""
    if isinstance(data, pl.DataFrame):
        return data
    if not _is_pandas(data):
        raise DataError(
            f"expected a data frame of polars or pandas, got {type(data).__name__}: pass a frame, "
            "or save the table as CSV or Parquet and pass its path"
        )
    names = [str(name) for name in data.columns]  # 1 and "1" are two names in pandas alone
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"the frame has several columns called {repeated[0]!r}: rename them")
    return pl.DataFrame([_column(str(name), data[name]) for name in data.columns])


def _is_pandas(data: object) -> bool:
    # By its name, so that pandas is not imported for those who do not use it.
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _whole(value: Any) -> Any:
    return whole_letters(value) if isinstance(value, str) else value


def _column(name: str, column: Any) -> pl.Series:
    values = column.to_numpy()
    if values.dtype.kind in "biufMm":
        return pl.Series(name, values, nan_to_null=True)
    # Text and mixtures hold None, NaN or NaT for what is missing.
    missing = column.isna().to_numpy()
    present = [None if gone else _whole(value) for value, gone in zip(values, missing, strict=True)]
    try:
        found = pl.Series(name, present, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        found = pl.Series(name, present, pl.Object)
    if found.dtype != pl.Object:
        return found
    # Periods, intervals, paths and mixtures are what they are written as.
    return pl.Series(name, [None if value is None else str(value) for value in present], pl.String)
