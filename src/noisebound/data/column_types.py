"""The type of a table's column: given by the user, or decided once from all its values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from noisebound.errors import DataError

ColumnType: TypeAlias = Literal["number", "category", "text", "date"]
"""How a column is used: as a number, as one feature per value, as words, or as a point in time."""

MISSING_WORDS = ("", "na", "n/a", "n.a.", "nan", "null", "none", "missing", "-", "--", "?", ".")
"""What people write, in any case, where a number or a date is missing."""

# A choice: so many values that are no numbers are slips of the pen, and more are a category.
_FEW_SLIPS = 0.01
_LOOKED_AT = 1000  # values from which a format of dates is guessed before all are tried: a choice
_MANY_TEXTS = 32  # fewer distinct texts are categories, however long they are: a choice
_DISTINCT_SHARE = 0.5  # "mostly distinct": a choice
_WORDS_OF_A_SENTENCE = 3.0  # on average; names and places have fewer: a choice
_LETTERS_OF_A_SENTENCE = 6.0  # in scripts that write no spaces, on average: a choice
_WITHOUT_SPACES = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"  # Japanese, Chinese, Thai


@dataclass(frozen=True)
class ColumnDecision:
    """What a column is, and how to bring its values into that form.

    Args:
        kind: the type; None for a column that cannot be used
        values: the expression that gives the values in that type
        note: what was done, in a sentence; empty if nothing was
    """

    kind: ColumnType | None
    values: pl.Expr
    note: str = ""


def decide_type(series: pl.Series, wanted: ColumnType | None = None) -> ColumnDecision:
    """Return what a column is.

    Args:
        series: all values of the column
        wanted: the type that the user gave; None to decide it

    Raises:
        DataError: the values cannot be of the type that the user gave
    """
    as_it_is = pl.col(series.name)
    if wanted in ("category", "text"):
        if not is_scalar(series.dtype):
            raise DataError(f"column {series.name!r} of type {series.dtype} cannot be {wanted}")
        return ColumnDecision(wanted, as_text(series.name, series.dtype))
    if series.dtype.is_temporal() and wanted in (None, "date"):
        return ColumnDecision("date", as_it_is)
    if is_number(series.dtype) and wanted in (None, "number"):
        return ColumnDecision("number", as_it_is)
    if not is_string(series.dtype):
        if wanted is not None:
            raise DataError(
                f"column {series.name!r} of type {series.dtype} cannot be read as {wanted}s"
            )
        return ColumnDecision(None, as_it_is, _left_out(series))
    return _decide_strings(series.cast(pl.String), wanted)


def _decide_strings(series: pl.Series, wanted: ColumnType | None) -> ColumnDecision:
    if series.null_count() == len(series):
        return ColumnDecision(wanted or "category", pl.col(series.name))
    candidates: list[tuple[ColumnType, pl.Expr]] = [("number", parsed_numbers(series.name))]
    dates = _parsed_dates(series)
    candidates += [] if dates is None else [("date", dates)]
    for kind, values in candidates:
        if wanted not in (None, kind):
            continue
        slips = slips_of(series, values)
        share = len(slips) / max(1, len(series) - series.null_count())
        if share <= _FEW_SLIPS or (wanted is not None and share < 1):
            return ColumnDecision(kind, values, _note_of_slips(slips, kind))
    if wanted is not None:
        raise DataError(
            f"column {series.name!r} cannot be read as {wanted}s: it has values such as "
            f"{series.drop_nulls()[0]!r}"
        )
    if looks_like_text(series):
        return ColumnDecision(None, pl.col(series.name), _is_text_note(series))
    return ColumnDecision("category", pl.col(series.name))


def parsed_numbers(name: str) -> pl.Expr:
    """Return the expression that reads text as numbers; what is no number becomes null."""
    return pl.col(name).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False).alias(name)


def parsed_dates(name: str) -> pl.Expr:
    """Return the expression that reads text as dates in one format, guessed from the values."""
    stripped = pl.col(name).cast(pl.String).str.strip_chars().str.strip_suffix("Z")
    return stripped.str.to_datetime(strict=False, time_unit="us").alias(name)


def as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return the expression that writes values as text; whole numbers have no fraction."""
    column = pl.col(name)
    if dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        is_whole = whole.cast(pl.Float64) == column
        return pl.when(is_whole).then(whole.cast(pl.String)).otherwise(column.cast(pl.String))
    return column.cast(pl.String)


def looks_like_text(series: pl.Series) -> bool:
    """True if a column of strings holds sentences: long, and mostly distinct."""
    present = series.drop_nulls()
    distinct = present.n_unique()
    if distinct <= _MANY_TEXTS or distinct < _DISTINCT_SHARE * len(present):
        return False
    sample = present.head(10 * _LOOKED_AT)
    words = sample.str.count_matches(r"\S+").mean()
    letters = sample.str.count_matches(_WITHOUT_SPACES).mean()
    assert isinstance(words, float)
    assert isinstance(letters, float)
    return words >= _WORDS_OF_A_SENTENCE or letters >= _LETTERS_OF_A_SENTENCE


def is_number(dtype: pl.DataType) -> bool:
    """True for numbers and truth values."""
    return dtype.is_numeric() or dtype == pl.Boolean


def is_string(dtype: pl.DataType) -> bool:
    """True for strings, however they are stored."""
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def is_scalar(dtype: pl.DataType) -> bool:
    """True for values that can be written as one text."""
    return is_number(dtype) or is_string(dtype) or dtype.is_temporal()


def check_named(columns: list[str], named: Mapping[str, object], source: str) -> None:
    """Raise a `DataError` if an option names a column that the table lacks."""
    missing = [name for name in named if name not in columns]
    if missing:
        raise DataError(
            f"{source} has no column {missing[0]!r}; it has the columns {listed_names(columns)}"
        )


def listed_names(columns: list[str], most: int = 30) -> str:
    """Return the names of columns, the first of them if they are many."""
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return f"{', '.join(columns[:most])}{more}"


def _parsed_dates(series: pl.Series) -> pl.Expr | None:
    """Return how to read dates, if the first values are dates in a format that polars knows."""
    expression = parsed_dates(series.name)
    first = _without_missing(series).head(_LOOKED_AT).to_frame()
    try:
        is_date = first.select(expression).to_series().is_not_null()
    except pl.exceptions.PolarsError:  # no format fits the first value
        return None
    return expression if len(first) and is_date.any() else None


def _without_missing(series: pl.Series) -> pl.Series:
    is_missing = series.str.strip_chars().str.to_lowercase().is_in(MISSING_WORDS)
    return series.filter(~is_missing.fill_null(True))


def slips_of(series: pl.Series, values: pl.Expr) -> pl.Series:
    """Return the texts that an expression cannot read, and that are no word for what is missing."""
    try:
        parsed = series.to_frame().select(values).to_series()
    except pl.exceptions.PolarsError:
        return series
    return _without_missing(series.filter(parsed.is_null()))


def _note_of_slips(slips: pl.Series, kind: ColumnType) -> str:
    if slips.is_empty():
        return ""
    return (
        f"column {slips.name!r}: {len(slips)} values such as {slips[0]!r} are no {kind}s and count "
        "as missing"
    )


def _left_out(series: pl.Series) -> str:
    return f"column {series.name!r} of type {series.dtype} was left out"


def _is_text_note(series: pl.Series) -> str:
    return (
        f"column {series.name!r} holds texts, nearly every row one of its own, and was left out: "
        f"to learn from its words, name it: `text`"
    )
