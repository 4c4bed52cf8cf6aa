"""Figures and images as ``data:`` addresses, so that a page needs no other file."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

_LARGEST = 96  # pixels of a thumbnail, about the width that the page shows

# Each color of the plots, and the one that replaces it on a dark ground, where it would be faint.
_DARK = {
    "#000000": "#e8e8e8",
    "#ffffff": "#161616",
    "#cccccc": "#4a4a4a",
    "#b0b0b0": "#4a4a4a",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff9d5c",
    "#009e73": "#3fc79a",
}


@dataclass(frozen=True)
class Thumbnail:
    """A small image with lines of text below it."""

    source: str  # the image as a ``data:`` address
    description: str  # text for readers who cannot see the image
    lines: Sequence[str]  # the lines below the image


def thumbnail(
    image: Shaped[Tensor, "channels height width"], description: str, lines: Sequence[str]
) -> Thumbnail:
    """Return the thumbnail of an image, which is scaled down if it is large."""
    picture = as_picture(image)
    picture.thumbnail((_LARGEST, _LARGEST))
    return Thumbnail(embedded_image(picture), description, lines)


def as_picture(image: Shaped[Tensor, "channels height width"]) -> Image.Image:
    """Return an image of bytes, or of floating-point numbers scaled to their own range."""
    values = image.float()
    low, high = (0.0, 255.0) if not image.is_floating_point() else map(float, values.aminmax())
    scaled = ((values - low) / max(high - low, 1e-12)).clamp(0, 1)
    pixels = (scaled[0] if len(image) == 1 else scaled[:3].movedim(0, -1)).numpy()
    return Image.fromarray((255 * pixels).round().astype(np.uint8))


def embedded_figure(figure: Figure) -> tuple[str, str]:
    """Return the figure as SVG addresses, for a light page and for a dark page.

    As an image, an SVG cannot run scripts.
    """
    stream = io.StringIO()
    with rc_context({"svg.hashsalt": "noisebound"}):  # equal figures give equal text
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    drawing = stream.getvalue()
    return _embedded("svg+xml", drawing.encode()), _embedded("svg+xml", _darkened(drawing).encode())


def embedded_image(image: Image.Image) -> str:
    """Return an image of pixels as a PNG address."""
    return _embedded("png", png(image))


def png(image: Image.Image) -> bytes:
    """Return an image of pixels as a PNG file."""
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def _darkened(drawing: str) -> str:
    recolored = re.sub("|".join(_DARK), lambda found: _DARK[found.group()], drawing)
    # Black text has no color attribute, so it takes the color of the root element.
    return recolored.replace("<svg ", f'<svg fill="{_DARK["#000000"]}" ', 1)


def _embedded(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
