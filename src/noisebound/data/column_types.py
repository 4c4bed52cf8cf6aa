"""The type of a table's column: given by the user, or decided once from all its values.

Numbers and dates in text have two styles each: ``1,234`` may be a thousand or a little more than
one, and ``3/4/2024`` may be in April or in March. One value can be ambiguous; a whole column rarely
is. The style is stored with the model, because the values of a new file may be ambiguous.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

import polars as pl

from noisebound.errors import DataError

ColumnType: TypeAlias = Literal["number", "category", "text", "date"]
"""How a column is used: as a number, as one feature per value, as words, or as a point in time."""

Style: TypeAlias = Literal["point", "comma", "day_first", "month_first"]
"""``1,234.5`` or ``1.234,5`` among numbers, ``31/1/2024`` or ``1/31/2024`` among dates."""

MISSING_FIELDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Texts for a missing value, in columns of every type."""

LEADING_ZERO = r"^\s*-?0\d+\s*$"
"""A whole number with a leading zero, such as a postal code: a code, not a number."""

_MISSING_WORDS = (  # for a missing number or date, in any case
    "", "na", "n/a", "#n/a", "n.a.", "nan", "null", "none", "missing", "-", "--", "?", ".",
)  # fmt: skip
_STYLES: dict[ColumnType, tuple[Style, ...]] = {
    "number": ("point", "comma"),
    "date": ("day_first", "month_first"),
}
_WHOLE_FRACTION = r"^(-?[1-9][0-9]*|0)\.0$"  # as pandas and polars write a whole number

# Heuristics.
_FEW_SLIPS = 0.01  # share of unreadable values up to which a column still holds numbers
_SOME_SLIPS = 0.1  # share up to which a note explains why a column holds categories
_MANY_TEXTS = 32  # fewer distinct texts are categories, however long they are
_DISTINCT_TEXTS = 0.5  # share of distinct values from which texts may be sentences
_WORDS_OF_A_SENTENCE = 3.0  # on average; names and places have fewer
_LETTERS_OF_A_SENTENCE = 6.0  # on average, in scripts without spaces
_SENTENCES_LOOKED_AT = 10_000
_WITHOUT_SPACES = r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]"  # Japanese, Chinese, Thai


@dataclass(frozen=True)
class ColumnDecision:
    """The type of a column, None if it cannot be used; its values in that type; an optional note.

    The style is that of numbers or dates in a column of text.
    """

    kind: ColumnType | None
    values: pl.Series
    note: str = ""
    style: Style | None = None


def decide_type(
    series: pl.Series, wanted: ColumnType | None = None, style: Style | None = None
) -> ColumnDecision:
    """Return the type of a column and its values in that type, from all its values.

    ``wanted`` is the type that the user gave, and ``style`` that of numbers or dates in text, if it
    is known. By default, both are decided. Values that cannot be of the wanted type raise a
    `DataError`.
    """
    dtype = series.dtype
    if wanted in ("category", "text") and is_scalar(dtype):
        return ColumnDecision(wanted, (as_category if wanted == "category" else as_text)(series))
    if dtype in (pl.Date, pl.Datetime) and wanted in (None, "date"):
        return ColumnDecision("date", series)
    if is_number(dtype) and wanted in (None, "number"):
        return ColumnDecision("number", series)
    if is_string(dtype):
        return _decide_strings(series.cast(pl.String), wanted, style)
    if wanted is not None:
        raise DataError(f"column {series.name!r} of type {dtype} cannot be read as {wanted}")
    return ColumnDecision(None, series, f"column {series.name!r} of type {dtype} was left out")


def _decide_strings(
    series: pl.Series, wanted: ColumnType | None, style: Style | None
) -> ColumnDecision:
    present = len(series) - series.null_count()
    if not present:
        return ColumnDecision(wanted or "category", series)
    column, note = f"column {series.name!r}", ""
    has_codes = bool(series.str.contains(LEADING_ZERO).any())
    for kind in _STYLES if wanted is None else (wanted,):
        if kind == "number" and wanted is None and has_codes:
            continue
        chosen, values = read_values(series, kind, style)
        slips = unreadable(series, values)
        if len(slips) <= (_FEW_SLIPS * present if wanted is None else present - 1):
            notes = [_note_of_doubt(series, values, kind, chosen)]
            if len(slips):
                slip = f"{len(slips)} values such as {slips[0]!r}"
                notes.insert(0, f"{column}: {slip} are not {kind}s and count as missing")
            return ColumnDecision(kind, values, "; ".join(filter(None, notes)), chosen)
        if len(slips) <= _SOME_SLIPS * present:
            note = (
                f"{column} is taken for categories, because {len(slips)} values such as "
                f"{slips[0]!r} are not {kind}s; to count these as missing, set the type: `types`"
            )
    if wanted is not None:
        example = series.drop_nulls()[0]
        raise DataError(f"{column} cannot be read as {wanted}s: it has values such as {example!r}")
    if looks_like_text(series):
        note = (
            f"{column} holds texts, nearly every row one of its own, and was left out: to learn "
            "from its words, name it: `text`"
        )
        return ColumnDecision(None, series, note)
    return ColumnDecision("category", series, note)


def looks_like_text(series: pl.Series) -> bool:
    """True if a column of strings holds sentences: long and mostly distinct."""
    present = series.drop_nulls()
    distinct = present.n_unique()
    if distinct <= _MANY_TEXTS or distinct < _DISTINCT_TEXTS * len(present):
        return False
    sample = present.head(_SENTENCES_LOOKED_AT)
    words = sample.str.count_matches(r"\S+").to_numpy().mean()
    letters = sample.str.count_matches(_WITHOUT_SPACES).to_numpy().mean()
    return bool(words >= _WORDS_OF_A_SENTENCE or letters >= _LETTERS_OF_A_SENTENCE)


def nulls_for_missing(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with null for words such as NA in its columns of strings.

    So the same rows have the same categories and classes in CSV, which has no null, and elsewhere.
    """
    names = [name for name, dtype in frame.schema.items() if is_string(dtype)]
    if not names:
        return frame
    is_missing = pl.col(names).cast(pl.String).is_in(MISSING_FIELDS)
    return frame.with_columns(pl.when(~is_missing).then(pl.col(names)).name.keep())


def as_text(series: pl.Series) -> pl.Series:
    """Return values as text; whole numbers have no fraction."""
    texts = series.cast(pl.String)
    if not series.dtype.is_float():
        return texts
    whole = series.cast(pl.Int64, strict=False)
    is_whole = (whole.cast(pl.Float64) == series).fill_null(False)
    return whole.cast(pl.String).zip_with(is_whole, texts)


def as_category(series: pl.Series) -> pl.Series:
    """Return categories in one spelling, for tables of any origin.

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


def is_number(dtype: pl.DataType) -> bool:
    """True for numbers and booleans."""
    return dtype.is_numeric() or dtype == pl.Boolean


def is_string(dtype: pl.DataType) -> bool:
    """True for strings, however they are stored."""
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def is_scalar(dtype: pl.DataType) -> bool:
    """True for values that have one text form."""
    return is_number(dtype) or is_string(dtype) or dtype.is_temporal()


def check_named(columns: Sequence[str], named: Iterable[str], source: str) -> None:
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


_LOOKED_AT = 1000  # values from which the forms of dates are chosen; heuristic
_NUMBERS_APART = r"\d.*[-/.,:\s].*\d"  # as in every date
_SIGNS = r"[$€£¥₹%]"  # beside a number; shares and prices are numbers
_GROUPED_BEFORE_POINT = r"^[+-]?[1-9]\d{0,2}(?:[,\s']\d{3})+(?:\.\d+)?$"
_BEFORE_COMMA = r"^[+-]?(?:\d+|[1-9]\d{0,2}(?:[.\s']\d{3})+)(?:,\d+)?$"
# Years of two digits stand first: a year of four digits does not fit them, but the reverse does.
_DAYS: dict[Style, tuple[str, ...]] = {
    "day_first": ("%d/%m/%y", "%d/%m/%Y", "%d-%m-%Y"),
    "month_first": ("%m/%d/%y", "%m/%d/%Y", "%m-%d-%Y"),
}
_DAYS_OF_BOTH = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%d.%m.%Y", "%d-%b-%y", "%d-%b-%Y", "%d %b %Y",
    "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y",
)  # fmt: skip
_CLOCKS = (
    "", " %H:%M", " %H:%M:%S%.f", "T%H:%M", "T%H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p",
    " %H:%M:%S%.f%#z", "T%H:%M:%S%.f%#z",
)  # fmt: skip


def read_values(
    series: pl.Series, kind: ColumnType, style: Style | None = None
) -> tuple[Style, pl.Series]:
    """Return numbers or dates in text, null where they cannot be read, and their style.

    By default, the style is the one that reads most values, and the first one if both read equally
    many.
    """
    styles = _STYLES[kind] if style is None else (style,)
    read = [(each, _read_as(series, each)) for each in styles]
    return min(read, key=lambda each: each[1].null_count())


def unreadable(series: pl.Series, read: pl.Series) -> pl.Series:
    """Return the texts that were not read, without words for missing values."""
    return _without_missing(series.cast(pl.String).filter(read.is_null()))


def _without_missing(series: pl.Series) -> pl.Series:
    is_missing = series.str.strip_chars().str.to_lowercase().is_in(_MISSING_WORDS)
    return series.filter(~is_missing.fill_null(True))


def _note_of_doubt(series: pl.Series, values: pl.Series, kind: ColumnType, style: Style) -> str:
    """Return a note if the other style reads all texts too and gives other values; else empty."""
    other = _read_as(series, next(each for each in _STYLES[kind] if each != style))
    is_plain = series.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    differs = values.ne_missing(other) & ((kind == "date") | ~is_plain)
    if other.null_count() > values.null_count() or not differs.any():
        return ""
    row = differs.arg_max()
    assert row is not None
    return (
        f"column {series.name!r}: {series[row]!r} is read as {values[row]}, and could mean "
        f"{other[row]}; if that is wrong, write it as "
        f"{'2024-12-31' if kind == 'date' else '1234.5'}"
    )


def _read_as(series: pl.Series, style: Style) -> pl.Series:
    texts = series.cast(pl.String).str.strip_chars()
    if style in _DAYS:
        return _dates(texts, style)
    return texts.to_frame().select(_number(pl.col(series.name), style)).to_series()


def _number(text: pl.Expr, style: Style) -> pl.Expr:
    bare = text.str.replace_all(rf"\s*{_SIGNS}\s*", "")
    if style == "point":
        is_grouped = bare.str.contains(_GROUPED_BEFORE_POINT)
        plain = pl.when(is_grouped).then(bare.str.replace_all(r"[,\s']", "")).otherwise(bare)
    else:
        digits = bare.str.replace_all(r"[.\s']", "").str.replace(",", ".", literal=True)
        plain = pl.when(bare.str.contains(_BEFORE_COMMA)).then(digits)
    return plain.cast(pl.Float64, strict=False).name.keep()


def _dates(texts: pl.Series, style: Style) -> pl.Series:
    """Return dates, with or without a time of day; the first form that fits a value reads it."""
    sample = _without_missing(texts).head(_LOOKED_AT)
    sample = sample.filter(sample.str.contains(_NUMBERS_APART))
    forms = map("".join, itertools.product((*_DAYS[style], *_DAYS_OF_BOTH), _CLOCKS))
    fitting = [form for form in forms if _as_datetime(sample, form).is_not_null().any()]
    if not fitting:
        return pl.Series(texts.name, [None] * len(texts), pl.Datetime("us"))
    return pl.select(pl.coalesce([_as_datetime(texts, form) for form in fitting])).to_series()


def _as_datetime(texts: pl.Series, form: str) -> pl.Series:
    return texts.str.to_datetime(form, strict=False, time_unit="us").dt.replace_time_zone(None)
