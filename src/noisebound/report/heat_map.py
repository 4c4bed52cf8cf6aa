"""A matrix of shares as a shaded table: the larger the share, the darker the cell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from noisebound.report.embedding import embedded_image

_MOST_WITH_NUMBERS = 12  # rows: a choice; more columns than that do not fit on a page
_FAINT, _STRONG = np.array([234, 242, 251]), np.array([0, 58, 112])  # RGB at shares 0 and 1


@dataclass(frozen=True)
class HeatMap:
    """A table of shaded cells; a large one is an image without numbers.

    Args:
        title: what the map shows
        rows: what a row stands for, such as ``"given label"``
        columns: what a column stands for
        row_names: one per row
        column_names: one per column
        values: shares from 0 to 1, row by row
    """

    title: str
    rows: str
    columns: str
    row_names: Sequence[str]
    column_names: Sequence[str]
    values: Sequence[Sequence[float]]

    @property
    def has_numbers(self) -> bool:
        """True if there is room for numbers in the cells."""
        return len(self.values) <= _MOST_WITH_NUMBERS

    @property
    def source(self) -> str:
        """The map as the address of an image with one pixel per cell."""
        shares = np.clip(np.array(self.values), 0, 1)[..., None]
        pixels = _FAINT + shares * (_STRONG - _FAINT)
        return embedded_image(Image.fromarray(pixels.round().astype(np.uint8)))
