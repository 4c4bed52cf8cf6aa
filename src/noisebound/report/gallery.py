"""Small images of a page, each with lines of text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from PIL import Image
from torch import Tensor

from noisebound.report.contact_sheet import pixels
from noisebound.report.embedding import embedded_image

_LARGEST = 96  # pixels: a choice, about the width that the page shows


@dataclass(frozen=True)
class Thumbnail:
    """An image with lines of text below it.

    Args:
        source: the image as a ``data:`` address
        description: text for readers who cannot see the image
        lines: the lines below the image
    """

    source: str
    description: str
    lines: Sequence[str]


def thumbnail(
    image: Shaped[Tensor, "channels height width"], description: str, lines: Sequence[str]
) -> Thumbnail:
    """Return the thumbnail of an image.

    Args:
        image: bytes, or floating-point numbers, which are scaled to their own range; a large image
            is made smaller
        description: text for readers who cannot see the image
        lines: the lines below the image
    """
    picture = as_picture(image)
    picture.thumbnail((_LARGEST, _LARGEST))
    return Thumbnail(embedded_image(picture), description, lines)


def as_picture(image: Shaped[Tensor, "channels height width"]) -> Image.Image:
    """Return an image of bytes, or of floating-point numbers scaled to their own range."""
    return Image.fromarray((255 * pixels(image)).round().astype(np.uint8))
