"""Pictures as part of a page: in place of an address, an image's own bytes."""

import base64
import io
import re

from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

# what stands out from white does not from black: each of the plots' colors by night
_BY_NIGHT = {
    "#000000": "#e8e8e8",
    "#ffffff": "#161616",
    "#cccccc": "#4a4a4a",
    "#b0b0b0": "#4a4a4a",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff9d5c",
    "#009e73": "#3fc79a",
}


def embedded_figure(figure: Figure) -> tuple[str, str]:
    """A figure for a white page, and for a black one; an image in a page cannot run scripts."""
    stream = io.StringIO()
    with rc_context({"svg.hashsalt": "noisebound"}):  # the same picture, the same text
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    drawing = stream.getvalue()
    return _embedded("svg+xml", drawing.encode()), _embedded("svg+xml", _by_night(drawing).encode())


def embedded_image(image: Image.Image) -> str:
    """A photograph, or any other picture of pixels."""
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return _embedded("png", stream.getvalue())


def _by_night(drawing: str) -> str:
    known = re.compile("|".join(_BY_NIGHT))
    recolored = known.sub(lambda found: _BY_NIGHT[found.group()], drawing)
    # black text has no color of its own, and takes that of the whole
    return recolored.replace("<svg ", f'<svg fill="{_BY_NIGHT["#000000"]}" ', 1)


def _embedded(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
