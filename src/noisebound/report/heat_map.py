"""A matrix of shares, to be looked at: the larger, the darker."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from noisebound.report.embedding import embedded_image

_MOST_WITH_NUMBERS = 12
_FAINT, _STRONG = np.array([234, 242, 251]), np.array([0, 58, 112])


@dataclass(frozen=True)
class HeatMap:
    """A table whose cells are shaded; without numbers, as a picture, where there are many.

    Args:
        title: says what it shows
        rows: what the rows are called
        columns: what the columns are called
        row_names: one a row
        column_names: one a column
        values: between 0 and 1, row by row
    """

    title: str
    rows: str
    columns: str
    row_names: Sequence[str]
    column_names: Sequence[str]
    values: Sequence[Sequence[float]]

    @property
    def has_numbers(self) -> bool:
        """Whether there is room for them."""
        return len(self.values) <= _MOST_WITH_NUMBERS

    @property
    def source(self) -> str:
        """A pixel a cell."""
        shares = np.clip(np.array(self.values), 0, 1)[..., None]
        pixels = _FAINT + shares * (_STRONG - _FAINT)
        return embedded_image(Image.fromarray(pixels.round().astype(np.uint8)))
