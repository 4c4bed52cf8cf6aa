"""Numbers and dates in columns of text.

Both have two styles: ``1,234`` may be a thousand or a little more than one, and ``3/4/2024`` may be
in April or in March. One value can be ambiguous; a whole column rarely is. The style is stored with
the model, because the values of a new file may be ambiguous.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import polars as pl

Style: TypeAlias = Literal["point", "comma", "day_first", "month_first"]
"""``1,234.5`` or ``1.234,5`` among numbers, ``31/1/2024`` or ``1/31/2024`` among dates."""

NUMBER_STYLES: tuple[Style, ...] = ("point", "comma")
DATE_STYLES: tuple[Style, ...] = ("day_first", "month_first")

_OTHER: dict[Style, Style] = {
    "point": "comma",
    "comma": "point",
    "day_first": "month_first",
    "month_first": "day_first",
}
_IN_NO_DOUBT: dict[Style, str] = {
    "point": "1234.5",
    "comma": "1234.5",
    "day_first": "2024-12-31",
    "month_first": "2024-12-31",
}

MISSING_WORDS = (
    "", "na", "n/a", "#n/a", "n.a.", "nan", "null", "none", "missing", "-", "--", "?", ".",
)  # fmt: skip
"""Texts for a missing number or date, in any case."""

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
_TIMES_OF_DAY = ("%H:%M", "%H:%M:%S%.f", "%I:%M %p", "%I:%M:%S %p")


def read_best(series: pl.Series, styles: tuple[Style, ...]) -> tuple[Style, pl.Series]:
    """Return the style that reads most values, the first one if equal, and the values."""
    readings = [(style, read_as(series, style)) for style in styles]
    return min(readings, key=lambda reading: reading[1].null_count())


def note_of_doubt(series: pl.Series, values: pl.Series, style: Style) -> str:
    """Return a note if the other style reads all texts too and gives other values; else empty."""
    other = read_as(series, _OTHER[style])
    differs = values.ne_missing(other) & (values.dtype.is_temporal() | ~_is_plain(series))
    if other.null_count() > values.null_count() or not differs.any():
        return ""
    row = differs.arg_max()
    assert row is not None
    return (
        f"column {series.name!r}: {series[row]!r} is read as {values[row]}, and could mean "
        f"{other[row]}; if that is wrong, write it as {_IN_NO_DOUBT[style]}"
    )


def _is_plain(series: pl.Series) -> pl.Series:
    return series.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()


def read_as(series: pl.Series, style: Style) -> pl.Series:
    """Return texts as numbers or points in time; null for texts that cannot be read."""
    texts = series.cast(pl.String).str.strip_chars()
    if style in NUMBER_STYLES:
        return texts.to_frame().select(_number(pl.col(series.name), style)).to_series()
    return _dates(texts, style)


def unreadable(series: pl.Series, read: pl.Series) -> pl.Series:
    """Return the texts that were not read, without words for missing values."""
    return without_missing(series.cast(pl.String).filter(read.is_null()))


def without_missing(series: pl.Series) -> pl.Series:
    """Return the texts without nulls and words for missing values."""
    is_missing = series.str.strip_chars().str.to_lowercase().is_in(MISSING_WORDS)
    return series.filter(~is_missing.fill_null(True))


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
    """Return dates, with or without a time of day, or times of day alone."""
    sample = without_missing(texts).head(_LOOKED_AT)
    days = (*_DAYS[style], *_DAYS_OF_BOTH)
    moments = [day + clock for day, clock in itertools.product(days, _CLOCKS)]
    for forms, parse in ((moments, _moments), (_TIMES_OF_DAY, _times_of_day)):
        fitting = _fitting(sample, forms, parse)
        if fitting:
            return pl.select(pl.coalesce([parse(texts, form) for form in fitting])).to_series()
    return pl.Series(texts.name, [None] * len(texts), pl.Datetime("us"))


def _fitting(
    sample: pl.Series, forms: Sequence[str], parse: Callable[[pl.Series, str], pl.Series]
) -> list[str]:
    """Return the forms of the values of a sample: for each value the first that fits."""
    left = sample.filter(sample.str.contains(_NUMBERS_APART))
    fitting = []
    for form in forms if len(left) else ():
        is_left = parse(left, form).is_null()
        if not is_left.all():
            fitting.append(form)
            left = left.filter(is_left)
    return fitting


def _moments(texts: pl.Series, form: str) -> pl.Series:
    return texts.str.to_datetime(form, strict=False, time_unit="us").dt.replace_time_zone(None)


def _times_of_day(texts: pl.Series, form: str) -> pl.Series:
    return texts.str.to_time(form, strict=False)
