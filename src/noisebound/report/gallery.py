"""Small images side by side, each with its words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from PIL import Image
from torch import Tensor

from noisebound.report.contact_sheet import pixels
from noisebound.report.embedding import embedded_image

_LARGEST = 96


@dataclass(frozen=True)
class Thumbnail:
    """An image, in place of an address, and lines of text."""

    source: str
    description: str
    lines: Sequence[str]


def thumbnail(
    image: Shaped[Tensor, "channels height width"], description: str, lines: Sequence[str]
) -> Thumbnail:
    """Of an image of bytes, or of numbers that are brought to the range from 0 to 255.

    Args:
        image: large ones are made smaller
        description: for those who cannot see it
        lines: below it
    """
    picture = Image.fromarray((255 * pixels(image)).round().astype(np.uint8))
    picture.thumbnail((_LARGEST, _LARGEST))
    return Thumbnail(embedded_image(picture), description, lines)
