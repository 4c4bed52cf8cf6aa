"""Images as ``data:`` addresses, so that a page needs no other file."""

import base64
import io
import re

from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

# Each of the plots' colors with the one that replaces it on dark ground, where it would be faint.
_DARK = {
    "#000000": "#e8e8e8",
    "#ffffff": "#161616",
    "#cccccc": "#4a4a4a",
    "#b0b0b0": "#4a4a4a",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff9d5c",
    "#009e73": "#3fc79a",
}


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
    known = re.compile("|".join(_DARK))
    recolored = known.sub(lambda found: _DARK[found.group()], drawing)
    # Black text has no color attribute, so it takes the color of the root element.
    return recolored.replace("<svg ", f'<svg fill="{_DARK["#000000"]}" ', 1)


def _embedded(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
