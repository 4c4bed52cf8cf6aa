"""A table's columns as numbers, by rules that are stored and applied to new rows."""

from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import torch
from jaxtyping import Float32
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from noisebound.data.frames import as_polars
from noisebound.data.reading import reading
from noisebound.errors import DataError

MAX_CATEGORIES = 32  # a choice: one feature each, and rarer ones share one
# A choice: a text that differs in nearly every row is an identifier or a sentence, no category.
_IDENTIFIER_SHARE = 0.9


class NumberColumn(BaseModel):
    """A number, standardized; a missing one becomes the mean, and a second feature says so."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["number"] = "number"
    name: str
    mean: float
    std: float
    has_missing: bool
    is_time: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        return [self.name, f"{self.name} is missing"][: 1 + self.has_missing]

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return the features of a column, ``[rows, features]``."""
        is_right = _is_number(column.dtype) and column.dtype.is_temporal() == self.is_time
        if not is_right and column.null_count() < len(column):
            wanted = "dates or times" if self.is_time else "numbers"
            raise DataError(f"column {self.name!r} must hold {wanted}, got {column.dtype}")
        values = _numbers(column)
        is_missing = np.isnan(values)
        standard = np.where(is_missing, 0.0, (values - self.mean) / self.std)
        return np.stack([standard, is_missing][: 1 + self.has_missing], axis=1)


class CategoryColumn(BaseModel):
    """A category, one feature per value; rare values may share one, missing ones have their own.

    A value that fitting did not see counts as a rare one, or as none of them.
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["category"] = "category"
    name: str
    categories: tuple[str, ...]
    has_other: bool
    has_missing: bool

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        names = [f"{self.name} = {category}" for category in self.categories]
        names += [f"{self.name} is another"] * self.has_other
        return names + [f"{self.name} is missing"] * self.has_missing

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return the features of a column, ``[rows, features]``."""
        if not _is_text(column.dtype) and column.null_count() < len(column):
            raise DataError(f"column {self.name!r} must hold text, got {column.dtype}")
        texts = column.cast(pl.String)
        is_category = [(texts == category).fill_null(False) for category in self.categories]
        is_missing = texts.is_null()
        features = [flags.to_numpy() for flags in is_category]
        if self.has_other:
            features.append(~texts.is_in(list(self.categories)).fill_null(True).to_numpy())
        if self.has_missing:
            features.append(is_missing.to_numpy())
        return np.stack(features, axis=1).astype(np.float64)


Column = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]


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
    def fit(cls, frame: pl.DataFrame) -> "TableEncoder":
        """Return the rule with the means, deviations and categories of these rows."""
        columns: list[NumberColumn | CategoryColumn] = []
        notes: list[str] = []
        for series in frame:
            column, note = _fit_column(series)
            columns += [column] if column else []
            notes += [note] if note else []
        if not columns:
            raise DataError("no column can be used as a feature: " + "; ".join(notes))
        return cls(columns=tuple(columns), notes=tuple(notes))

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        return [name for column in self.columns for name in column.feature_names]

    def transform(self, data: Any) -> Float32[Tensor, "rows features"]:
        """Return the features of a frame's rows; columns that fitting did not see are ignored.

        Args:
            data: a frame of polars or pandas
        """
        frame = as_polars(data)
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise DataError(f"the table lacks the columns {', '.join(missing)}")
        with reading("the table", remedy="give the columns the types they had"):
            encoded = [column.encode(frame[column.name]) for column in self.columns]
        return torch.from_numpy(np.concatenate(encoded, axis=1).astype(np.float32))


def _fit_column(series: pl.Series) -> tuple[NumberColumn | CategoryColumn | None, str]:
    if series.null_count() == len(series):
        return None, f"column {series.name!r} is empty and was left out"
    if _is_number(series.dtype):
        return _fit_numbers(series)
    if _is_text(series.dtype):
        return _fit_categories(series)
    return None, f"column {series.name!r} of type {series.dtype} was left out"


def _fit_numbers(series: pl.Series) -> tuple[NumberColumn | None, str]:
    values = _numbers(series)
    is_missing = np.isnan(values)
    present = values[~is_missing]
    if len(present) == 0:
        return None, f"column {series.name!r} has no finite number and was left out"
    if present.min() == present.max() and not is_missing.any():
        return None, f"column {series.name!r} never varies and was left out"
    column = NumberColumn(
        name=series.name,
        mean=float(present.mean()),
        std=float(present.std()) if present.min() < present.max() else 1.0,
        has_missing=bool(is_missing.any()),
        is_time=series.dtype.is_temporal(),
    )
    note = f"column {series.name!r}: {is_missing.sum()} missing numbers became the mean"
    return column, note if is_missing.any() else ""


def _fit_categories(series: pl.Series) -> tuple[CategoryColumn | None, str]:
    texts = series.cast(pl.String).alias("text")
    present = texts.drop_nulls()
    counts = present.value_counts().sort("count", "text", descending=[True, False])
    distinct = len(counts)
    if distinct > MAX_CATEGORIES and distinct >= _IDENTIFIER_SHARE * len(present):
        return None, (
            f"column {series.name!r} was left out: nearly every row has a text of its own "
            f"({distinct} in {len(present)})"
        )
    if distinct == 1 and not texts.null_count():
        return None, f"column {series.name!r} never varies and was left out"
    kept = counts.head(MAX_CATEGORIES)
    column = CategoryColumn(
        name=series.name,
        categories=tuple(sorted(kept["text"].to_list())),
        has_other=distinct > MAX_CATEGORIES,
        has_missing=texts.null_count() > 0,
    )
    if distinct <= MAX_CATEGORIES:
        return column, ""
    share = kept["count"].sum() / len(present)
    return column, (
        f"column {series.name!r} has {distinct} categories: the {MAX_CATEGORIES} most frequent "
        f"({share:.0%} of the rows) are kept, the others share one feature"
    )


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean or dtype.is_temporal()


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _numbers(series: pl.Series) -> np.ndarray:
    """Return float64 with NaN for what is missing or beyond float32; times in microseconds."""
    numbers = _microseconds(series) if series.dtype.is_temporal() else series
    values = numbers.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    return np.where(np.abs(values) <= np.finfo(np.float32).max, values, np.nan)


def _microseconds(series: pl.Series) -> pl.Series:
    """Return times in microseconds, whatever unit the file keeps them in."""
    if series.dtype == pl.Duration:
        return series.dt.total_microseconds()
    if series.dtype == pl.Time:
        return series.cast(pl.Duration("us")).dt.total_microseconds()
    return series.dt.epoch("us")
