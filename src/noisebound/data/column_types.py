"""The type of a table's column: given by the user, or decided once from all its values."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

import polars as pl

from noisebound.data.missing import MISSING_FIELDS
from noisebound.data.written import (
    DATE_STYLES,
    NUMBER_STYLES,
    Style,
    note_of_doubt,
    read_best,
    unreadable,
)
from noisebound.errors import DataError

ColumnType: TypeAlias = Literal["number", "category", "text", "date"]
"""How a column is used: as a number, as one feature per value, as words, or as a point in time."""

# A choice: so many values that are no numbers are slips of the pen, and more are a category.
_FEW_SLIPS = 0.01
_SOME_SLIPS = 0.1  # with more, a column was hardly meant to hold numbers: a choice
_MANY_TEXTS = 32  # fewer distinct texts are categories, however long they are: a choice
_DISTINCT_SHARE = 0.5  # "mostly distinct": a choice
_WORDS_OF_A_SENTENCE = 3.0  # on average; names and places have fewer: a choice
_LETTERS_OF_A_SENTENCE = 6.0  # in scripts that write no spaces, on average: a choice
_SENTENCES_LOOKED_AT = 10_000  # a choice
_WITHOUT_SPACES = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"  # Japanese, Chinese, Thai
_WHOLE_FRACTION = r"^(-?[1-9][0-9]*|0)\.0$"  # as pandas and polars write a whole number
_STYLES: dict[ColumnType, tuple[Style, ...]] = {"number": NUMBER_STYLES, "date": DATE_STYLES}


@dataclass(frozen=True)
class ColumnDecision:
    """What a column is, and how to bring its values into that form.

    Args:
        kind: the type; None for a column that cannot be used
        values: the values in that type
        note: what was done, in a sentence; empty if nothing was
        style: how the numbers or dates of a column of text are written; None for all others
    """

    kind: ColumnType | None
    values: pl.Series
    note: str = ""
    style: Style | None = None


def decide_type(
    series: pl.Series, wanted: ColumnType | None = None, style: Style | None = None
) -> ColumnDecision:
    """Return what a column is.

    Args:
        series: all values of the column
        wanted: the type that the user gave; None to decide it
        style: how numbers or dates are written, if that is known; None to decide it

    Raises:
        DataError: the values cannot be of the type that the user gave
    """
    if wanted in ("category", "text"):
        if not is_scalar(series.dtype):
            raise DataError(f"column {series.name!r} of type {series.dtype} cannot be {wanted}")
        values = as_category(series) if wanted == "category" else as_text(series)
        return ColumnDecision(wanted, values)
    if series.dtype.is_temporal() and wanted in (None, "date"):
        return ColumnDecision("date", series)
    if is_number(series.dtype) and wanted in (None, "number"):
        return ColumnDecision("number", series)
    if not is_string(series.dtype):
        if wanted is not None:
            raise DataError(
                f"column {series.name!r} of type {series.dtype} cannot be read as {wanted}s"
            )
        return ColumnDecision(None, series, _left_out(series))
    return _decide_strings(series.cast(pl.String), wanted, style)


def _decide_strings(
    series: pl.Series, wanted: ColumnType | None, style: Style | None
) -> ColumnDecision:
    present = len(series) - series.null_count()
    if not present:
        return ColumnDecision(wanted or "category", series)
    note = ""
    for kind, styles in _STYLES.items():
        if wanted not in (None, kind):
            continue
        chosen, values = read_best(series, styles if style is None else (style,))
        slips = unreadable(series, values)
        if len(slips) <= _FEW_SLIPS * present or (wanted is not None and len(slips) < present):
            said = (_note_of_slips(slips, kind), note_of_doubt(series, values, chosen))
            return ColumnDecision(kind, values, "; ".join(filter(None, said)), chosen)
        if len(slips) <= _SOME_SLIPS * present:
            note = _note_of_categories(slips, kind)
    if wanted is not None:
        raise DataError(
            f"column {series.name!r} cannot be read as {wanted}s: it has values such as "
            f"{series.drop_nulls()[0]!r}"
        )
    if looks_like_text(series):
        return ColumnDecision(None, series, _is_text_note(series))
    return ColumnDecision("category", series, note)


def as_text(series: pl.Series) -> pl.Series:
    """Return values as text; whole numbers have no fraction."""
    texts = series.cast(pl.String)
    if not series.dtype.is_float():
        return texts
    whole = series.cast(pl.Int64, strict=False)
    is_whole = (whole.cast(pl.Float64) == series).fill_null(False)
    return whole.cast(pl.String).zip_with(is_whole, texts)


def as_category(series: pl.Series) -> pl.Series:
    """Return values in the one spelling that a category has, wherever its table came from.

    A file may write the code 10 as 10.0, because others in its column are missing, and the truth
    value true as True or TRUE. NaN and words such as NA are missing values. Codes such as 007 stay
    as they are written.

    Example:
        >>> as_category(pl.Series(["10.0", "007", "True", "north"])).to_list()
        ['10', '007', 'true', 'north']
    """
    texts = as_text(series.fill_nan(None) if series.dtype.is_float() else series)
    lower = texts.str.to_lowercase()
    is_truth = lower.is_in(["true", "false"]).fill_null(False)
    spelled = lower.zip_with(is_truth, texts.str.replace(_WHOLE_FRACTION, "$1"))
    return spelled.set(spelled.is_in(MISSING_FIELDS).fill_null(False), None)


def looks_like_text(series: pl.Series) -> bool:
    """True if a column of strings holds sentences: long, and mostly distinct."""
    present = series.drop_nulls()
    distinct = present.n_unique()
    if distinct <= _MANY_TEXTS or distinct < _DISTINCT_SHARE * len(present):
        return False
    sample = present.head(_SENTENCES_LOOKED_AT)
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
        close = get_close_matches(missing[0].lower(), {name.lower() for name in columns}, n=1)
        similar = [name for name in columns if close and name.lower() == close[0]]
        hint = f": did you mean {similar[0]!r}? It has" if similar else "; it has"
        raise DataError(
            f"{source} has no column {missing[0]!r}{hint} the columns {listed_names(columns)}"
        )


def listed_names(columns: list[str], most: int = 30) -> str:
    """Return the names of columns, the first of them if they are many."""
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return f"{', '.join(columns[:most])}{more}"


def _note_of_slips(slips: pl.Series, kind: ColumnType) -> str:
    if slips.is_empty():
        return ""
    return (
        f"column {slips.name!r}: {len(slips)} values such as {slips[0]!r} are no {kind}s and count "
        "as missing"
    )


def _note_of_categories(slips: pl.Series, kind: ColumnType) -> str:
    return (
        f"column {slips.name!r} is taken for categories, because {len(slips)} values such as "
        f"{slips[0]!r} are no {kind}s; to count these as missing, say the type: `types`"
    )


def _left_out(series: pl.Series) -> str:
    return f"column {series.name!r} of type {series.dtype} was left out"


def _is_text_note(series: pl.Series) -> str:
    return (
        f"column {series.name!r} holds texts, nearly every row one of its own, and was left out: "
        f"to learn from its words, name it: `text`"
    )
