"""Self-contained HTML pages: they fetch nothing, and every text in them is escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from matplotlib.figure import Figure
from PIL import Image

from noisebound.report.images import Thumbnail, embedded_figure, embedded_image
from noisebound.report.table import Table
from noisebound.system.files import write_text

_WIDEST_PANEL = 7.0  # inches, between one panel (5.2) and two (10)
_MOST_WITH_NUMBERS = 12  # rows of a heat map; more columns than that do not fit on a page
_FAINT, _STRONG = np.array([234, 242, 251]), np.array([0, 58, 112])  # RGB at shares 0 and 1
_TEMPLATES = Environment(
    loader=PackageLoader("noisebound.report"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Picture:
    """A figure, with a description for readers who cannot see it."""

    figure: Figure
    description: str

    @property
    def is_wide(self) -> bool:
        """True if the figure has panels side by side, too wide for a phone."""
        return self.figure.get_figwidth() > _WIDEST_PANEL

    @cached_property
    def sources(self) -> tuple[str, str]:
        """The figure as ``data:`` addresses, for a light page and for a dark page."""
        return embedded_figure(self.figure)


@dataclass(frozen=True)
class HeatMap:
    """A matrix of shares as a table of shaded cells; a large one is an image without numbers."""

    title: str  # the title
    rows: str  # the meaning of a row, such as ``"given label"``
    columns: str  # the meaning of a column
    row_names: Sequence[str]  # one per row
    column_names: Sequence[str]  # one per column
    values: Sequence[Sequence[float]]  # shares from 0 to 1, row by row

    @property
    def has_numbers(self) -> bool:
        """True if there is room for numbers in the cells."""
        return len(self.values) <= _MOST_WITH_NUMBERS

    @property
    def source(self) -> str:
        """The address of an image with one pixel per cell."""
        shares = np.clip(np.array(self.values), 0, 1)[..., None]
        pixels = _FAINT + shares * (_STRONG - _FAINT)
        return embedded_image(Image.fromarray(pixels.round().astype(np.uint8)))


@dataclass(frozen=True)
class Code:
    """Preformatted text below a title, folded away unless `is_open`."""

    title: str
    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Fact:
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
    heat_maps: Sequence[HeatMap] = ()
    gallery: Sequence[Thumbnail] = ()
    code: Sequence[Code] = ()


@dataclass(frozen=True)
class Page:
    """A page."""

    title: str  # the title
    headline: str  # the conclusion, in a sentence
    sections: Sequence[Section]  # the sections, in their order
    facts: Sequence[Fact] = ()  # the numbers below the headline


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of a template of ``report/templates``; a missing value is an error."""
    return _TEMPLATES.get_template(template).render(values)


def to_html(page: Page) -> str:
    """Return the page as text."""
    return render("page.html", {"page": page, "version": version("noisebound")})


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_text(path, to_html(page))
