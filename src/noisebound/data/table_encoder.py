"""A table's columns as features, by stored rules that also apply to new rows."""

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import polars as pl
import torch
from jaxtyping import Float32
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_matrix, hstack
from torch import Tensor

from noisebound.data.column_types import (
    ColumnDecision,
    ColumnType,
    Style,
    as_category,
    decide_type,
    is_number,
    is_scalar,
    is_string,
    listed_names,
    read_values,
    unreadable,
)
from noisebound.data.files import as_data_error
from noisebound.data.frames import as_polars
from noisebound.data.rows import SparseRows
from noisebound.data.text_columns import TextColumn
from noisebound.errors import DataError

# Heuristics.
MAX_CATEGORIES = 32  # categories with a feature of their own; rarer ones share one
_IDENTIFIER_SHARE = 0.9  # share of distinct values from which a column may identify its row
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
        return [self.name, f"{self.name} is missing"][: 1 + self.has_missing]

    def encode(self, column: pl.Series) -> np.ndarray:
        values = _numbers(self._in_type(column))
        is_missing = np.isnan(values)
        standard = np.where(is_missing, 0.0, (values - self.mean) / self.std)
        return np.stack([standard, is_missing][: 1 + self.has_missing], axis=1).astype(np.float32)

    def _in_type(self, column: pl.Series) -> pl.Series:
        """Return the values as numbers or dates, also where a file has them as text."""
        has_values = column.null_count() < len(column)
        if is_string(column.dtype) and has_values:
            if not self.is_time:  # beside other values, booleans are read as text
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


def _numbers(series: pl.Series) -> np.ndarray:
    """Return float64, NaN for missing values and those beyond float32; times in microseconds."""
    if series.dtype.is_temporal():
        series = series.dt.epoch("us")
    values = series.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return np.where(np.abs(values) <= np.finfo(np.float32).max, values, np.nan)


class CategoryColumn(BaseModel):
    """A category: one feature per value, one for rare values and one for missing ones.

    A new value counts as rare if the training data has rare values.
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
        texts = as_category(series).alias("text")
        counts = texts.drop_nulls().value_counts().sort("count", "text", descending=[True, False])
        distinct, present = len(counts), len(texts) - texts.null_count()
        is_identifier = distinct > MAX_CATEGORIES and distinct >= _IDENTIFIER_SHARE * present
        if is_identifier and not is_wanted:
            return None, (
                f"column {series.name!r} was left out: nearly every row has a text of its own "
                f"({distinct} in {present})"
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
        note = (
            f"column {series.name!r} has {distinct} categories: the {MAX_CATEGORIES} most frequent "
            f"({kept['count'].sum() / present:.0%} of the rows) are kept, the others share one "
            "feature"
        )
        return column, note if column.has_other else ""

    @property
    def feature_names(self) -> list[str]:
        names = [f"{self.name} = {category}" for category in self.categories]
        names += [f"{self.name} is another"] * self.has_other
        return names + [f"{self.name} is missing"] * self.has_missing

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return the features of a column, ``[rows, features]``.

        Numbers count as text, because a file may have codes of digits only.
        """
        if not is_scalar(column.dtype) and column.null_count() < len(column):
            raise DataError(f"column {self.name!r} must hold text, got {column.dtype}")
        texts = as_category(column)
        features = [(texts == category).fill_null(False) for category in self.categories]
        features += [~texts.is_in(list(self.categories)).fill_null(True)] * self.has_other
        features += [texts.is_null()] * self.has_missing
        return np.stack([flags.to_numpy() for flags in features], axis=1).astype(np.float32)


# Heuristics for columns that number the rows. They mean nothing on new data, and a network would
# trust them.
_FEWEST_ROWS = 30  # in fewer rows, a column may ascend by chance
_ROWS_LOOKED_AT = 10_000  # evenly spread over the table
# Rank correlation with the row number. It is 1 for sorted values; for random ones it is far below
# 0.999, as its standard error is 1/sqrt(rows).
_FOLLOWS = 0.999
_SPARSE = 2  # an index is recognized even if every second row was dropped
_WRITTEN_INDEX = frozenset({"", "unnamed: 0", "__index_level_0__"})  # pandas' names for its index
_ID_NAME = re.compile(r"^index$|row_?id$|(?:(?i:(?:^|[_ -])id)|[a-z0-9]I[dD])$")  # but not Paid


def _identifier_reason(series: pl.Series) -> str | None:
    """Return why a column of numbers or dates only identifies its row; None if it does not."""
    present, name = series.drop_nulls(), series.name.strip()
    if present.dtype.is_float():  # in pandas, integers become floats beside missing values
        present = present.drop_nans()
        whole = present.cast(pl.Int64, strict=False)
        present = whole if (whole == present).fill_null(False).all() else present
    has_enough = len(present) >= _FEWEST_ROWS and present.dtype != pl.Boolean
    sample = present.gather_every(max(1, len(present) // _ROWS_LOOKED_AT))
    if has_enough and sample.n_unique() >= _IDENTIFIER_SHARE * len(sample):
        ranks = sample.rank().to_numpy()
        if abs(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) >= _FOLLOWS:
            return "it follows the order of the rows"
    if not present.dtype.is_integer() or not len(present):
        return None
    if name.lower() in _WRITTEN_INDEX:
        return "it is the index of a data frame that was written beside the columns"
    low, high = (int(str(extreme)) for extreme in (present.min(), present.max()))
    is_narrow = high - low < _SPARSE * len(present)
    if has_enough and (is_narrow or _ID_NAME.search(name)) and present.n_unique() == len(present):
        return "it is an identifier, another whole number in every row"
    return None


Column: TypeAlias = Annotated[
    NumberColumn | CategoryColumn | TextColumn, Field(discriminator="kind")
]


def _fit_column(decision: ColumnDecision, *, is_wanted: bool) -> tuple[Column | None, str]:
    """Return a column, None if it is left out, and a note; ``is_wanted`` keeps identifiers."""
    series = decision.values
    if decision.kind is None:
        return None, ""
    if decision.kind == "text":
        return TextColumn.fit(series), ""
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


class UnseenCategoryWarning(UserWarning):
    """New rows have categories that the training data lacks."""


class TableEncoder(BaseModel):
    """The rule that turns rows into features: fitted once, stored as JSON with the model.

    Example:
        >>> frame = pl.DataFrame({"age": [20, 40], "city": ["Rome", "Oslo"]})
        >>> encoder = TableEncoder.fit(frame)
        >>> encoder.feature_names
        ['age', 'city = Oslo', 'city = Rome']
        >>> encoder.transform(frame)
        tensor([[-1.,  0.,  1.],
                [ 1.,  1.,  0.]])
    """

    model_config = ConfigDict(frozen=True)
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        frame: pl.DataFrame,
        types: Mapping[str, ColumnType] | None = None,
        *,
        styles: Mapping[str, Style] | None = None,
    ) -> "TableEncoder":
        """Return the rule with the means, deviations and categories of these rows.

        The user, or an earlier encoder, may give types of columns and styles of numbers and dates.
        Texts have no features until `with_words` or a backbone adds them.
        """
        wanted = types or {}
        columns: list[Column] = []
        notes: list[str] = []
        for series in frame:
            name = series.name
            decision = decide_type(series, wanted.get(name), (styles or {}).get(name))
            column, note = _fit_column(decision, is_wanted=name in wanted)
            columns += [] if column is None else [column]
            notes += filter(None, (decision.note, note))
        if not columns:
            reasons = "; ".join(notes) or "there is none beside the labels"
            raise DataError(f"no column can be used as a feature: {reasons}")
        return cls(columns=tuple(columns), notes=tuple(notes))

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    @property
    def types(self) -> dict[str, ColumnType]:
        return {column.name: _type_of(column) for column in self.columns}

    @property
    def styles(self) -> dict[str, Style]:
        columns = [column for column in self.columns if isinstance(column, NumberColumn)]
        return {column.name: column.style for column in columns if column.style is not None}

    @property
    def raw_columns(self) -> frozenset[str]:
        """The columns to read as text even if they are all digits."""
        codes = {name for name, kind in self.types.items() if kind in ("category", "text")}
        return frozenset(codes | self.styles.keys())

    @property
    def text_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.texts)

    @property
    def texts(self) -> tuple[TextColumn, ...]:
        return tuple(column for column in self.columns if isinstance(column, TextColumn))

    @property
    def text_scale(self) -> float:
        return self.texts[0].scale if self.texts else 1.0

    def with_text_scale(self, scale: float, note: str) -> "TableEncoder":
        """Return the same rule with other factors for the texts; words are left out at 0."""
        scaled = self._with_texts(lambda column: column.model_copy(update={"scale": scale}))
        kept = [column for column in scaled.columns if scale or column.kind != "text"]
        return TableEncoder(columns=tuple(kept), notes=(*self.notes, note))

    def with_words(self, frame: pl.DataFrame) -> "TableEncoder":
        """Return the same rule with TF-IDF features for the texts, of the words of these rows."""
        return self._with_texts(lambda column: column.with_words(frame[column.name]))

    def beside_texts(self) -> "TableEncoder":
        return self._with_texts(lambda column: TextColumn(name=column.name))

    def _with_texts(self, change: Callable[[TextColumn], TextColumn]) -> "TableEncoder":
        columns = [change(each) if isinstance(each, TextColumn) else each for each in self.columns]
        return TableEncoder(columns=tuple(columns), notes=self.notes)

    def transform_new(self, data: Any) -> Float32[Tensor, "rows features"] | SparseRows:
        """Return the features of rows to predict; warn of categories that fitting did not see."""
        for note in self.unseen_notes(data):
            warnings.warn(note, UnseenCategoryWarning, stacklevel=2)
        return self.transform(data)

    def unseen_notes(self, data: Any) -> list[str]:
        """Return a note for each column with categories that fitting did not see.

        If rare categories share a feature, they are not stored, and there is no note.
        """
        frame, notes = as_polars(data), []
        for column in self.columns:
            if isinstance(column, CategoryColumn) and not column.has_other and column.name in frame:
                texts = as_category(frame[column.name]).drop_nulls()
                unseen = texts.filter(~texts.is_in(list(column.categories)))
                if len(unseen):
                    names = [repr(name) for name in unseen.unique().sort()]
                    notes.append(
                        f"column {column.name!r}: {len(unseen):,} of {len(frame):,} rows have "
                        "categories that the training data lacks: "
                        f"{listed_names(names, _UNSEEN_SHOWN)}"
                    )
        return notes

    def transform(self, data: Any) -> Float32[Tensor, "rows features"] | SparseRows:
        """Return the features of a frame's rows; columns that fitting did not see are ignored.

        They are sparse if a column holds texts.
        """
        frame = as_polars(data)
        missing = [column.name for column in self.columns if column.name not in frame]
        if missing:
            raise DataError(f"the table lacks the columns {', '.join(missing)}")
        if not len(frame):
            raise DataError("the table has no rows")
        with as_data_error("the table", remedy="give the columns the types they had"):
            columns = [column for column in self.columns if column.kind != "plain text"]
            blocks: list[Any] = [column.encode(frame[column.name]) for column in columns]
            if any(column.vocabularies for column in self.texts):
                sparse = [csr_matrix(block) for block in blocks]
                return SparseRows(hstack(sparse, format="csr", dtype=np.float32))
            empty = np.empty((len(frame), 0), np.float32)
            return torch.from_numpy(np.concatenate([empty, *blocks], axis=1))


def _type_of(column: Column) -> ColumnType:
    if isinstance(column, NumberColumn):
        return "date" if column.is_time else "number"
    return "text" if isinstance(column, TextColumn) else "category"
