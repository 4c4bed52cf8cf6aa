"""Many small images on one page, each with a line of text."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

_COLUMNS = 8
_SIDE = 1.5  # inches


def contact_sheet(
    images: Shaped[Tensor, "n channels height width"], captions: Sequence[str], title: str
) -> Figure:
    """The images in their order, row after row.

    Args:
        images: of bytes, or of numbers that are brought to the range from 0 to 1
        captions: one an image
        title: of the page
    """
    columns = min(_COLUMNS, max(1, len(images)))
    rows = max(1, math.ceil(len(images) / columns))
    figure = Figure(figsize=(columns * _SIDE, rows * (_SIDE + 0.45) + 0.4), layout="constrained")
    figure.suptitle(title)
    for place, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        axes.set_axis_off()
        if place < len(images):
            axes.imshow(pixels(images[place]), cmap="gray", vmin=0, vmax=1)
            # a dollar sign in a class's name is not mathematics
            axes.set_title(captions[place], fontsize=7, parse_math=False)
    return figure


def pixels(image: Shaped[Tensor, "channels height width"]) -> NDArray[np.float32]:
    """Numbers from 0 to 1: a matrix where there is one channel, else three of them."""
    values = image.float()
    low, high = (0.0, 255.0) if not image.is_floating_point() else map(float, values.aminmax())
    scaled = ((values - low) / max(high - low, 1e-12)).clamp(0, 1)
    return (scaled[0] if len(image) == 1 else scaled[:3].movedim(0, -1)).numpy()
