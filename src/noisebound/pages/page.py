"""Self-contained HTML pages: they fetch nothing, and every text in them is escaped."""

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from noisebound.pages.table import Table
from noisebound.system.files import write_text

_WIDEST_PANEL = 7.0  # inches, between one panel (5.2) and two (10)
_LARGEST_THUMBNAIL = 96  # pixels, about the width that the page shows
_TEMPLATES = Environment(
    loader=PackageLoader("noisebound.pages"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Picture:
    """A figure."""

    figure: Figure
    description: str  # text for readers who cannot see it

    @property
    def is_wide(self) -> bool:
        return self.figure.get_figwidth() > _WIDEST_PANEL

    @cached_property
    def source(self) -> str:
        """The figure as the ``data:`` address of an SVG, which as an image cannot run scripts."""
        stream = io.BytesIO()
        with rc_context({"svg.hashsalt": "noisebound"}):  # equal figures give equal text
            self.figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
        return _address("svg+xml", stream.getvalue())


class Thumbnail(NamedTuple):
    """A small image with lines of text below it."""

    source: str  # the image as a ``data:`` address
    description: str  # text for readers who cannot see the image
    lines: Sequence[str]


class Code(NamedTuple):
    """Preformatted text below a title, folded away unless `is_open`."""

    title: str
    text: str
    is_open: bool = False


class Fact(NamedTuple):
    """A number at the top of a page, as it is shown, and its meaning."""

    value: str
    label: str


@dataclass(frozen=True)
class Section:
    """A section of a page; it shows its parts in the order of its fields."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    gallery: Sequence[Thumbnail] = ()
    code: Sequence[Code] = ()
    folded: Sequence[Table] = ()  # shown on a click


@dataclass(frozen=True)
class Page:
    """A page."""

    title: str
    headline: str  # the conclusion, in a sentence
    sections: Sequence[Section]
    facts: Sequence[Fact] = ()  # shown below the headline


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of a file in ``pages/templates``; a missing value is an error."""
    return _TEMPLATES.get_template(template).render(values)


def to_html(page: Page) -> str:
    """Return the page as text."""
    return render("page.html", {"page": page, "version": version("noisebound")})


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_text(path, to_html(page))


def thumbnail(
    image: Shaped[Tensor, "channels height width"], description: str, lines: Sequence[str]
) -> Thumbnail:
    """Return the thumbnail of an image, which is scaled down if it is large."""
    picture = as_picture(image)
    picture.thumbnail((_LARGEST_THUMBNAIL, _LARGEST_THUMBNAIL))
    return Thumbnail(_address("png", png(picture)), description, lines)


def as_picture(image: Shaped[Tensor, "channels height width"]) -> Image.Image:
    """Return an image of bytes, or of floating-point numbers scaled to their own range."""
    values = image.float()
    low, high = (0.0, 255.0) if not image.is_floating_point() else map(float, values.aminmax())
    scaled = ((values - low) / max(high - low, 1e-12)).clamp(0, 1)
    pixels = (scaled[0] if len(image) == 1 else scaled[:3].movedim(0, -1)).numpy()
    return Image.fromarray((255 * pixels).round().astype(np.uint8))


def png(image: Image.Image) -> bytes:
    """Return an image as a PNG file."""
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def _address(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
