"""The type of a table's column: given by the user, or decided once from all its values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

import polars as pl

from noisebound.data.text_values import (
    DATE_STYLES,
    NUMBER_STYLES,
    Style,
    note_of_doubt,
    read_best,
    unreadable,
)
from noisebound.errors import DataError

MISSING_FIELDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Texts for a missing value, in columns of every type."""


def nulls_for_missing(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return a table with null for words such as NA in its columns of strings.

    So the same rows have the same categories and classes in CSV, which has no null, and elsewhere.
    """
    columns = [
        _null_for_missing(pl.col(name))
        for name, dtype in frame.collect_schema().items()
        if is_string(dtype)
    ]
    return frame.with_columns(columns)


def _null_for_missing(column: pl.Expr) -> pl.Expr:
    is_missing = column.cast(pl.String).is_in(MISSING_FIELDS)
    return pl.when(is_missing).then(None).otherwise(column).name.keep()


ColumnType: TypeAlias = Literal["number", "category", "text", "date"]
"""How a column is used: as a number, as one feature per value, as words, or as a point in time."""

# Heuristics.
_FEW_SLIPS = 0.01  # share of unreadable values up to which a column still holds numbers
_SOME_SLIPS = 0.1  # share up to which a note explains why a column holds categories
_MANY_TEXTS = 32  # fewer distinct texts are categories, however long they are
_DISTINCT_TEXTS = 0.5  # share of distinct values from which texts may be sentences
_WORDS_OF_A_SENTENCE = 3.0  # on average; names and places have fewer
_LETTERS_OF_A_SENTENCE = 6.0  # on average, in scripts without spaces
_SENTENCES_LOOKED_AT = 10_000
_WITHOUT_SPACES = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"  # Japanese, Chinese, Thai
LEADING_ZERO = r"^\s*-?0\d+\s*$"
"""A whole number with a leading zero, such as a postal code: a code, not a number."""
_WHOLE_FRACTION = r"^(-?[1-9][0-9]*|0)\.0$"  # as pandas and polars write a whole number
_STYLES: dict[ColumnType, tuple[Style, ...]] = {"number": NUMBER_STYLES, "date": DATE_STYLES}


@dataclass(frozen=True)
class ColumnDecision:
    """The type of a column, and its values in that type.

    Args:
        kind: the type; None for a column that cannot be used
        values: the values in that type
        note: a sentence about the decision, often empty
        style: the style of numbers or dates in a column of text
    """

    kind: ColumnType | None
    values: pl.Series
    note: str = ""
    style: Style | None = None


def decide_type(
    series: pl.Series, wanted: ColumnType | None = None, style: Style | None = None
) -> ColumnDecision:
    """Return the type of a column, and its values in that type.

    Args:
        series: all values of the column
        wanted: the type that the user gave (default: decide it)
        style: the style of numbers or dates in text, if it is known (default: decide it)

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
        note = f"column {series.name!r} of type {series.dtype} was left out"
        return ColumnDecision(None, series, note)
    return _decide_strings(series.cast(pl.String), wanted, style)


def _decide_strings(
    series: pl.Series, wanted: ColumnType | None, style: Style | None
) -> ColumnDecision:
    present = len(series) - series.null_count()
    if not present:
        return ColumnDecision(wanted or "category", series)
    codes = series.filter(series.str.contains(LEADING_ZERO))
    note = ""
    for kind, styles in _STYLES.items():
        if wanted not in (None, kind):
            continue
        chosen, values = read_best(series, styles if style is None else (style,))
        slips = unreadable(series, values)
        if len(slips) <= _FEW_SLIPS * present or (wanted is not None and len(slips) < present):
            if kind == "number" and wanted is None and len(codes):
                note = (
                    f"column {series.name!r} has codes such as {codes[0]!r}, with leading zeros, "
                    "and is taken for categories; to read numbers, set the type: `types`"
                )
                continue
            said = (_note_of_slips(slips, kind), note_of_doubt(series, values, chosen))
            return ColumnDecision(kind, values, "; ".join(filter(None, said)), chosen)
        if len(slips) <= _SOME_SLIPS * present:
            note = (
                f"column {series.name!r} is taken for categories, because {len(slips)} values such "
                f"as {slips[0]!r} are not {kind}s; to count these as missing, set the type: `types`"
            )
    if wanted is not None:
        raise DataError(
            f"column {series.name!r} cannot be read as {wanted}s: it has values such as "
            f"{series.drop_nulls()[0]!r}"
        )
    if looks_like_text(series):
        note = (
            f"column {series.name!r} holds texts, nearly every row one of its own, and was left "
            "out: to learn from its words, name it: `text`"
        )
        return ColumnDecision(None, series, note)
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
    """Return values in the one spelling of a category, wherever the table came from.

    Where values are missing, a file may have 10.0 for the code 10; booleans may be True or TRUE.
    NaN and words such as NA are missing values. Codes such as 007 stay unchanged.

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
    """True if a column of strings holds sentences: long and mostly distinct."""
    present = series.drop_nulls()
    distinct = present.n_unique()
    if distinct <= _MANY_TEXTS or distinct < _DISTINCT_TEXTS * len(present):
        return False
    sample = present.head(_SENTENCES_LOOKED_AT)
    words = sample.str.count_matches(r"\S+").mean()
    letters = sample.str.count_matches(_WITHOUT_SPACES).mean()
    assert isinstance(words, float)
    assert isinstance(letters, float)
    return words >= _WORDS_OF_A_SENTENCE or letters >= _LETTERS_OF_A_SENTENCE


def is_number(dtype: pl.DataType) -> bool:
    """True for numbers and booleans."""
    return dtype.is_numeric() or dtype == pl.Boolean


def is_string(dtype: pl.DataType) -> bool:
    """True for strings, however they are stored."""
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def is_scalar(dtype: pl.DataType) -> bool:
    """True for values that have one text form."""
    return is_number(dtype) or is_string(dtype) or dtype.is_temporal()


def check_named(columns: list[str], named: Mapping[str, object], source: str) -> None:
    """Raise a `DataError` if an option names a column that the table lacks."""
    missing = next((name for name in named if name not in columns), None)
    if missing is not None:
        raise DataError(
            f"{source} has no column {missing!r}{did_you_mean(missing, columns)}; it has the "
            f"columns {listed_names(columns)}"
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names the most similar known name, or an empty text.

    Example:
        >>> did_you_mean("Spieces", ["species", "sepal"])
        " (did you mean 'species'?)"
    """
    spelled = {each.casefold(): each for each in known}
    similar = get_close_matches(name.casefold(), spelled, n=1)
    return f" (did you mean {spelled[similar[0]]!r}?)" if similar else ""


def listed_names(names: Sequence[str], most: int = 30, separator: str = ", ") -> str:
    """Return the first names of a list, and how many more there are.

    Example:
        >>> listed_names(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def _note_of_slips(slips: pl.Series, kind: ColumnType) -> str:
    if slips.is_empty():
        return ""
    return (
        f"column {slips.name!r}: {len(slips)} values such as {slips[0]!r} are not {kind}s and "
        "count as missing"
    )


# Heuristics for columns that number the rows. They mean nothing on new data, and a network would
# trust them.
_FEWEST_ROWS = 30  # in fewer rows, a column may ascend by chance
_ROWS_LOOKED_AT = 10_000  # evenly spread over the table
_DISTINCT_SHARE = 0.9  # of an identifier's values
# Rank correlation with the row number. It is 1 for sorted values; for random ones it is far below
# 0.999, as its standard error is 1/sqrt(rows).
_FOLLOWS = 0.999
_SPARSE = 2  # an index still counts as one if every second row was dropped
_COUNTED_SHARE = 0.9  # of an index's steps that are one up; the others restart it
_WRITTEN_INDEX = frozenset({"", "unnamed: 0", "__index_level_0__"})  # pandas' names for its index
_INDEX_NAMES = _WRITTEN_INDEX | {"index", "rowid", "row_id"}
_ID_NAME = re.compile(r"(?:(?i:(?:^|[_ -])id)|[a-z0-9]I[dD])$")


def identifier_reason(series: pl.Series) -> str | None:
    """Return why a column of numbers or dates only identifies its row; None if it does not."""
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
    """Return the values that are not missing, as integers if all are whole.

    In pandas, integers become floats in a column with missing values.
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
