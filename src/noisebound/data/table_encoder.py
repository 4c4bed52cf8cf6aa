"""A table's columns as features, by stored rules that also apply to new rows."""

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
import polars as pl
import torch
from jaxtyping import Float32
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_matrix, hstack, vstack
from torch import Tensor

from noisebound.data.archives import as_data_error
from noisebound.data.cache import cache_folder
from noisebound.data.column_types import ColumnType, Style, decide_type
from noisebound.data.columns import CategoryColumn, NumberColumn, fit_column
from noisebound.data.rows import HELD_IN_MEMORY, SparseRows
from noisebound.data.table_files import as_lazy
from noisebound.data.text_columns import TextColumn
from noisebound.errors import DataError

_BLOCK = 2**24  # numbers encoded at once: 128 MB of float64

Column: TypeAlias = Annotated[
    NumberColumn | CategoryColumn | TextColumn, Field(discriminator="kind")
]
Frame: TypeAlias = pl.DataFrame | pl.LazyFrame


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
        frame: Frame,
        types: Mapping[str, ColumnType] | None = None,
        *,
        styles: Mapping[str, Style] | None = None,
    ) -> "TableEncoder":
        """Return the rule with the means, deviations and categories of these rows.

        Texts have no features until `with_words` or a backbone gives them some.

        Args:
            frame: the rows; a lazy frame is read one column at a time
            types: types that the user gave or an earlier encoder decided
            styles: styles of numbers and dates that an earlier encoder decided
        """
        lazy, wanted = as_lazy(frame), types or {}
        columns: list[Column] = []
        notes: list[str] = []
        for name in lazy.collect_schema().names():
            series = lazy.select(name).collect().to_series()
            decision = decide_type(series, wanted.get(name), (styles or {}).get(name))
            column, note = fit_column(decision, is_wanted=name in wanted)
            columns += [] if column is None else [column]
            notes += filter(None, (decision.note, note))
        if not columns:
            reasons = "; ".join(notes) or "there is none beside the labels"
            raise DataError(f"no column can be used as a feature: {reasons}")
        return cls(columns=tuple(columns), notes=tuple(notes))

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def types(self) -> dict[str, ColumnType]:
        """The type of each used column."""
        return {column.name: _type_of(column) for column in self.columns}

    @property
    def styles(self) -> dict[str, Style]:
        """The style of each column of numbers or dates that was read from text."""
        columns = [column for column in self.columns if isinstance(column, NumberColumn)]
        return {column.name: column.style for column in columns if column.style is not None}

    @property
    def raw_columns(self) -> frozenset[str]:
        """The columns to read as text even if they are all digits."""
        codes = {name for name, kind in self.types.items() if kind in ("category", "text")}
        return frozenset(codes | self.styles.keys())

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of texts."""
        return tuple(column.name for column in self.texts)

    @property
    def texts(self) -> tuple[TextColumn, ...]:
        """The rules of the columns of texts."""
        return tuple(column for column in self.columns if isinstance(column, TextColumn))

    @property
    def text_scale(self) -> float:
        """The factor of the features of texts."""
        return self.texts[0].scale if self.texts else 1.0

    def with_text_scale(self, scale: float, note: str) -> "TableEncoder":
        """Return the same rule with other factors for the texts; words are left out at 0."""
        scaled = self._with_texts(lambda column: column.model_copy(update={"scale": scale}))
        kept = [column for column in scaled.columns if scale or column.kind != "text"]
        return TableEncoder(columns=tuple(kept), notes=(*self.notes, note))

    def with_words(self, frame: Frame) -> "TableEncoder":
        """Return the same rule with TF-IDF features for the texts, of the words of these rows."""
        lazy = as_lazy(frame)
        return self._with_texts(
            lambda column: column.with_words(lazy.select(column.name).collect().to_series())
        )

    def beside_texts(self) -> "TableEncoder":
        """Return the same rule, with texts left alone."""
        return self._with_texts(lambda column: TextColumn(name=column.name))

    def _with_texts(self, change: Callable[[TextColumn], TextColumn]) -> "TableEncoder":
        columns = [change(each) if isinstance(each, TextColumn) else each for each in self.columns]
        return TableEncoder(columns=tuple(columns), notes=self.notes)

    def transform_new(self, data: Any) -> Float32[Tensor, "rows features"] | SparseRows:
        """Return the features of rows to predict; warn of categories that fitting did not see."""
        for note in self.unseen_notes(data):
            warnings.warn(note, UnseenCategoryWarning, stacklevel=2)
        return self.transform(data)

    def unseen_notes(self, data: Any) -> tuple[str, ...]:
        """Return a note for each column with categories that fitting did not see."""
        lazy = as_lazy(data)
        present = lazy.collect_schema().names()
        notes = [
            column.unseen_note(lazy.select(column.name).collect().to_series())
            for column in self.columns
            if isinstance(column, CategoryColumn) and column.name in present
        ]
        return tuple(note for note in notes if note)

    def transform(self, data: Any) -> Float32[Tensor, "rows features"] | SparseRows:
        """Return the features of a frame's rows; columns that fitting did not see are ignored.

        They are sparse if a column holds texts. Large dense features are kept in a temporary file.
        """
        lazy = as_lazy(data)
        names = lazy.collect_schema().names()
        missing = [column.name for column in self.columns if column.name not in names]
        if missing:
            raise DataError(f"the table lacks the columns {', '.join(missing)}")
        count = int(lazy.select(pl.len()).collect().item())
        if not count:
            raise DataError("the table has no rows")
        with as_data_error("the table", remedy="give the columns the types they had"):
            if any(column.vocabularies for column in self.texts):
                parts = [
                    hstack([csr_matrix(each) for each in self._encoded(block)], format="csr")
                    for block in self._blocks(lazy, count)
                ]
                return SparseRows(vstack(parts, format="csr", dtype=np.float32))
            features, start = _room_for(count, len(self.feature_names)), 0
            for block in self._blocks(lazy, count):
                rows, encoded = features[start : start + len(block)], list(self._encoded(block))
                if encoded:
                    np.concatenate(encoded, axis=1, out=rows, casting="same_kind")
                start += len(block)
            return torch.from_numpy(features)

    def _encoded(self, block: pl.DataFrame) -> Iterator[Any]:
        """Yield the features of each column that has any, dense or sparse."""
        for column in self.columns:
            if column.kind != "plain text":
                yield column.encode(block[column.name])

    def _blocks(self, lazy: pl.LazyFrame, count: int) -> Iterator[pl.DataFrame]:
        """Yield the rows in blocks, so that a lazy frame is never in memory as a whole."""
        dense = [column for column in self.columns if not isinstance(column, TextColumn)]
        size = max(1, _BLOCK // max(1, sum(len(column.feature_names) for column in dense)))
        wanted = lazy.select([column.name for column in self.columns])
        for start in range(0, count, size):
            yield wanted.slice(start, size).collect()


def _type_of(column: Column) -> ColumnType:
    if isinstance(column, NumberColumn):
        return "date" if column.is_time else "number"
    return "text" if isinstance(column, TextColumn) else "category"


def _room_for(rows: int, features: int) -> np.ndarray:
    """Return an array to write features to, in memory or in a temporary file."""
    shape = (rows, features)
    if 4 * math.prod(shape) <= HELD_IN_MEMORY:
        return np.empty(shape, np.float32)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    # The file has no name: the system removes it when its last use ends.
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, np.float32, "w+", shape=shape)
