"""Columns of numbers, dates and categories as features, by stored rules."""

import re
from typing import Annotated, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from noisebound.data.column_types import (
    ColumnDecision,
    Style,
    as_category,
    as_text,
    is_number,
    is_scalar,
    is_string,
    listed_names,
    read_values,
    unreadable,
)
from noisebound.data.labels import listed_spellings, spellings
from noisebound.data.text_columns import TextColumn
from noisebound.errors import DataError

# Heuristics.
MAX_CATEGORIES = 32  # categories with a feature of their own; rarer ones share one
_IDENTIFIER_SHARE = 0.9  # share of distinct texts from which a column is an identifier
_UNSEEN_SHOWN = 5  # categories in a message
_MOST_SLIPS = 0.5  # share of unreadable new numbers from which a column must be another one


class NumberColumn(BaseModel):
    """A standardized number; missing ones become the mean, and a second feature marks them."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["number"] = "number"
    name: str
    mean: Annotated[float, Field(allow_inf_nan=False)]
    std: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    has_missing: bool
    is_time: bool = False
    style: Style | None = None

    @classmethod
    def fit(
        cls, series: pl.Series, style: Style | None = None
    ) -> tuple["NumberColumn | None", str]:
        """Return the column, None if it is left out, and a note."""
        values = _numbers(series)
        is_missing = np.isnan(values)
        present = values[~is_missing]
        if len(present) == 0:
            return None, f"column {series.name!r} has no finite number and was left out"
        low, high = present.min(), present.max()
        if low == high and not is_missing.any():
            return None, f"column {series.name!r} never varies and was left out"
        column = cls(
            name=series.name,
            mean=float(present.mean()),
            std=float(present.std()) if low < high else 1.0,
            has_missing=bool(is_missing.any()),
            is_time=series.dtype.is_temporal(),
            style=style,
        )
        note = f"column {series.name!r}: {is_missing.sum()} missing numbers became the mean"
        return column, note if is_missing.any() else ""

    @property
    def feature_names(self) -> list[str]:
        """One name per feature."""
        return [self.name, f"{self.name} is missing"][: 1 + self.has_missing]

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return the features of a column, ``[rows, features]``."""
        values = _numbers(self._in_type(column))
        is_missing = np.isnan(values)
        standard = np.where(is_missing, 0.0, (values - self.mean) / self.std)
        return np.stack([standard, is_missing][: 1 + self.has_missing], axis=1)

    def _in_type(self, column: pl.Series) -> pl.Series:
        """Return the values as numbers or dates, also where a file has them as text."""
        has_values = column.null_count() < len(column)
        if is_string(column.dtype) and has_values:
            if not self.is_time:  # booleans are text beside a value that is not one
                lower = column.cast(pl.String).str.strip_chars().str.to_lowercase()
                column = lower.replace({"true": "1", "false": "0"})
            _, values = read_values(column, "date" if self.is_time else "number", self.style)
            if len(unreadable(column, values)) <= _MOST_SLIPS * len(column):
                return values
        is_right = is_number(column.dtype) or column.dtype.is_temporal()
        if has_values and not (is_right and column.dtype.is_temporal() == self.is_time):
            wanted = "dates or times" if self.is_time else "numbers"
            raise DataError(f"column {self.name!r} must hold {wanted}, got {column.dtype}")
        return column


class CategoryColumn(BaseModel):
    """A category: one feature per value, one for rare values and one for missing ones.

    A value that fitting did not see counts as a rare one if there are rare ones.
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["category"] = "category"
    name: str
    categories: tuple[str, ...]
    has_other: bool
    has_missing: bool

    @classmethod
    def fit(
        cls, series: pl.Series, *, is_wanted: bool = False
    ) -> tuple["CategoryColumn | None", str]:
        """Return the column, None if it is left out, and a note."""
        texts = as_category(series).alias("text")
        present = texts.drop_nulls()
        counts = present.value_counts().sort("count", "text", descending=[True, False])
        distinct = len(counts)
        is_identifier = distinct > MAX_CATEGORIES and distinct >= _IDENTIFIER_SHARE * len(present)
        if is_identifier and not is_wanted:
            return None, (
                f"column {series.name!r} was left out: nearly every row has a text of its own "
                f"({distinct} in {len(present)})"
            )
        if distinct <= 1 and not (distinct and texts.null_count()):
            return None, f"column {series.name!r} never varies and was left out"
        kept = counts.head(MAX_CATEGORIES)
        column = cls(
            name=series.name,
            categories=tuple(sorted(kept["text"].to_list())),
            has_other=distinct > MAX_CATEGORIES,
            has_missing=texts.null_count() > 0,
        )
        notes = []
        if groups := spellings(dict(counts.iter_rows())):
            notes.append(
                f"column {series.name!r} has categories that differ only by case or spaces, and "
                f"count as different: {listed_spellings(groups)}"
            )
        if distinct > MAX_CATEGORIES:
            share = kept["count"].sum() / len(present)
            notes.append(
                f"column {series.name!r} has {distinct} categories: the {MAX_CATEGORIES} most "
                f"frequent ({share:.0%} of the rows) are kept, the others share one feature"
            )
        return column, "; ".join(notes)

    def unseen_note(self, column: pl.Series) -> str:
        """Return a note on new values outside the known categories, which may be empty.

        If rare categories share a feature, they are not stored, so nothing can be said.
        """
        if self.has_other:
            return ""
        texts = self._in_known_spelling(column).drop_nulls()
        unseen = texts.filter(~texts.is_in(list(self.categories)))
        if not len(unseen):
            return ""
        names = [repr(name) for name in unseen.unique().sort()]
        return (
            f"column {self.name!r}: {len(unseen):,} of {len(column):,} rows have categories that "
            f"the training data lacks: {listed_names(names, _UNSEEN_SHOWN)}"
        )

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        names = [f"{self.name} = {category}" for category in self.categories]
        names += [f"{self.name} is another"] * self.has_other
        return names + [f"{self.name} is missing"] * self.has_missing

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return the features of a column, ``[rows, features]``.

        Numbers count as text, because codes that happen to be digits may be read as numbers. A
        value in another spelling, such as 10.0 for 10, counts as that category.
        """
        if not is_scalar(column.dtype) and column.null_count() < len(column):
            raise DataError(f"column {self.name!r} must hold text, got {column.dtype}")
        texts = self._in_known_spelling(column)
        is_category = [(texts == category).fill_null(False) for category in self.categories]
        features = [flags.to_numpy() for flags in is_category]
        if self.has_other:
            features.append(~texts.is_in(list(self.categories)).fill_null(True).to_numpy())
        if self.has_missing:
            features.append(texts.is_null().to_numpy())
        return np.stack(features, axis=1).astype(np.float64)

    def _in_known_spelling(self, column: pl.Series) -> pl.Series:
        """Return values as the categories spell them.

        Earlier models stored categories unchanged, including words for missing values such as NA.
        """
        texts, known = as_text(column), pl.Series(self.categories, dtype=pl.String)
        category_of = dict(zip(as_category(known), known, strict=True))
        if self.has_missing:
            category_of.pop(None, None)
        is_known = texts.is_in(list(self.categories)).fill_null(False)
        return texts.zip_with(is_known, as_category(column).replace(category_of))


def fit_column(
    decision: ColumnDecision, *, is_wanted: bool
) -> tuple[NumberColumn | CategoryColumn | TextColumn | None, str]:
    """Return a column, None if it is left out, and a note; ``is_wanted`` keeps identifiers."""
    series = decision.values
    if decision.kind is None:
        return None, ""
    if decision.kind == "text":
        return TextColumn.fit(series)
    if series.null_count() == len(series):
        return None, f"column {series.name!r} is empty and was left out"
    if decision.kind == "category":
        return CategoryColumn.fit(series, is_wanted=is_wanted)
    if not is_wanted and (reason := _identifier_reason(series)):
        return None, (
            f"column {series.name!r} was left out: {reason}; to use it all the same, set its type: "
            "`types`"
        )
    return NumberColumn.fit(series, decision.style)


def _numbers(series: pl.Series) -> np.ndarray:
    """Return float64, NaN for missing values and those beyond float32; times in microseconds."""
    if series.dtype == pl.Time:
        series = series.cast(pl.Duration("us"))
    if series.dtype == pl.Duration:
        series = series.dt.total_microseconds()
    elif series.dtype.is_temporal():
        series = series.dt.epoch("us")
    values = series.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return np.where(np.abs(values) <= np.finfo(np.float32).max, values, np.nan)


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
_ID_NAME = re.compile(r"(?:(?i:(?:^|[_ -])id)|[a-z0-9]I[dD])$")  # customer_id, userID, but not Paid


def _identifier_reason(series: pl.Series) -> str | None:
    """Return why a column of numbers or dates only identifies its row; None if it does not."""
    present, name = _whole(series), series.name.strip()
    has_enough = len(present) >= _FEWEST_ROWS and present.dtype != pl.Boolean
    if has_enough and _follows_rows(present):
        return "it follows the order of the rows"
    if not present.dtype.is_integer():
        return None
    if name.lower() in _WRITTEN_INDEX:
        return "it is the index of a data frame that was written beside the columns"
    if not has_enough:
        return None
    is_named = name.lower() in _INDEX_NAMES or _ID_NAME.search(name) is not None
    steps = present.cast(pl.Int64, strict=False).diff()
    if is_named and (steps == 1).sum() >= _COUNTED_SHARE * len(present):
        return "it counts the rows, several times from the start"
    low, high = (int(str(extreme)) for extreme in (present.min(), present.max()))
    is_narrow = high - low < _SPARSE * len(present)
    if (is_named or is_narrow) and present.n_unique() == len(present):
        return "it is an identifier, another whole number in every row"
    return None


def _whole(series: pl.Series) -> pl.Series:
    """Return the values that are not missing, as integers if all are whole.

    In pandas, integers become floats in a column with missing values.
    """
    if not series.dtype.is_float():
        return series.drop_nulls()
    present = series.fill_nan(None).drop_nulls()
    whole = present.cast(pl.Int64, strict=False)
    return whole if len(whole) and (whole == present).fill_null(False).all() else present


def _follows_rows(series: pl.Series) -> bool:
    sample = series.gather_every(max(1, len(series) // _ROWS_LOOKED_AT))
    if sample.n_unique() < _DISTINCT_SHARE * len(sample):
        return False
    ranks = pl.DataFrame({"rank": sample.rank(), "row": range(len(sample))})
    return bool(abs(ranks.select(pl.corr("rank", "row")).item()) >= _FOLLOWS)
