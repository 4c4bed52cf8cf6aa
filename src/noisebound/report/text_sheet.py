"""Many short texts in one figure, each with a caption."""

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure

_WIDTH = 8.0  # inches
_LETTERS = 108  # per line, in the small type of the figure
_LINE = 0.16  # inches
_GAP = 0.12


def text_sheet(texts: Sequence[str], captions: Sequence[str], title: str) -> Figure:
    """Return a figure of the texts in their order, one below the other.

    Args:
        texts: short texts
        captions: one per text, in bold above it
        title: title of the figure
    """
    wrapped = [textwrap.wrap(text, _LETTERS) or ["(empty)"] for text in texts]
    height = 0.6 + sum((1 + len(lines)) * _LINE + _GAP for lines in wrapped)
    figure = Figure(figsize=(_WIDTH, height))
    top = height - 0.3
    # A dollar sign in a text does not begin a formula.
    figure.text(0.5, top / height, title, ha="center", fontsize=11, parse_math=False)
    for lines, caption in zip(wrapped, captions, strict=True):
        top -= _GAP + _LINE
        figure.text(0.02, top / height, caption, fontsize=7, weight="bold", parse_math=False)
        for line in lines:
            top -= _LINE
            figure.text(0.02, top / height, line, fontsize=7, parse_math=False)
    return figure
