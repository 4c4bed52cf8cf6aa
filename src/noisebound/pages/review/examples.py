"""What a person sees of an example: its picture, its text, or the columns of its row."""

from functools import cached_property
from typing import Literal, TypeAlias

import polars as pl
import torch

from noisebound.data import Splits
from noisebound.runs.suspects import cut

Kind: TypeAlias = Literal["image", "text", "row"]
_MOST_FEATURES = 40  # numbers of an example that has no columns: a choice
_SHORT = 160  # letters of an example in a list: a choice
_LONG = 50_000  # letters of a text that is shown whole: a choice, about twenty pages


class ShownExamples:
    """The training examples of a data set, as a page shows them.

    Args:
        splits: the data
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    @cached_property
    def kind(self) -> Kind:
        """What the examples are."""
        if self.splits.has_pictures:
            return "image"
        return "row" if self._texts is None else "text"

    def name(self, position: int) -> str:
        """Return the example's file, or its position."""
        names = self.splits.train_names
        return f"#{position}" if names is None else names[position]

    def text(self, position: int) -> str | None:
        """Return the example's text; None if it has none."""
        return None if self._texts is None else self._texts[position][:_LONG]

    def columns(self, position: int) -> list[tuple[str, str]]:
        """Return the name and the value of each column that is not the text."""
        if self.kind == "image":
            return []
        if self._frame is None:
            return self._features(position)
        row = self._frame.row(position, named=True)
        return [
            (name, "" if value is None else str(value)[:_LONG])
            for name, value in row.items()
            if name not in self._text_columns
        ]

    def short(self, position: int) -> str:
        """Return the example in one line, for lists."""
        text = self.text(position)
        if text is None:
            text = " · ".join(f"{name} {value}" for name, value in self.columns(position))
        return cut(text, _SHORT)

    @cached_property
    def _texts(self) -> list[str] | None:
        return self.splits.texts()

    @cached_property
    def _frame(self) -> pl.DataFrame | None:
        return None if self.splits.frame is None else self.splits.frame.collect()

    @cached_property
    def _text_columns(self) -> tuple[str, ...]:
        if self.splits.embedded_by is not None:
            return self.splits.embedded_by.text_columns
        return () if self.splits.encoder is None else self.splits.encoder.text_columns

    def _features(self, position: int) -> list[tuple[str, str]]:
        """Return the first numbers of an example that came without columns."""
        numbers = self.splits.train.rows.dense(torch.tensor([position]))[0].flatten()
        shown = numbers[:_MOST_FEATURES].tolist()
        return [(f"feature {index}", f"{value:.4g}") for index, value in enumerate(shown)]
