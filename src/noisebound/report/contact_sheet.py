"""Many small images in one figure, each with a caption."""

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
    images: Tensor | Sequence[Shaped[Tensor, "_ _ _"]],
    captions: Sequence[str],
    title: str,
) -> Figure:
    """Return a figure of the images in their order, row by row.

    Args:
        images: bytes, or floating-point numbers, each image of which is scaled to its own range;
            ``[channels, height, width]`` each
        captions: one per image
        title: title of the figure
    """
    columns = min(_COLUMNS, max(1, len(images)))
    rows = max(1, math.ceil(len(images) / columns))
    figure = Figure(figsize=(columns * _SIDE, rows * (_SIDE + 0.45) + 0.4), layout="constrained")
    figure.suptitle(title)
    for place, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        axes.set_axis_off()
        if place < len(images):
            axes.imshow(pixels(images[place]), cmap="gray", vmin=0, vmax=1)
            # A dollar sign in a class name does not begin a formula.
            axes.set_title(captions[place], fontsize=7, parse_math=False)
    return figure


def pixels(image: Shaped[Tensor, "channels height width"]) -> NDArray[np.float32]:
    """Return pixels from 0 to 1: ``[height, width]`` if there is one channel, else RGB last."""
    values = image.float()
    low, high = (0.0, 255.0) if not image.is_floating_point() else map(float, values.aminmax())
    scaled = ((values - low) / max(high - low, 1e-12)).clamp(0, 1)
    return (scaled[0] if len(image) == 1 else scaled[:3].movedim(0, -1)).numpy()
