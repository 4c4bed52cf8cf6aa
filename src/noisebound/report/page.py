"""Self-contained HTML pages: they fetch nothing, and every text in them is escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from matplotlib.figure import Figure

from noisebound.report.embedding import embedded_figure
from noisebound.report.gallery import Thumbnail
from noisebound.report.heat_map import HeatMap
from noisebound.report.rendering import render
from noisebound.report.table import Table
from noisebound.system.files import write_text

_WIDEST_PANEL = 7.0  # inches: a choice, between one panel (5.2) and two (10)


@dataclass(frozen=True)
class Picture:
    """A figure of a page.

    Args:
        figure: the figure
        description: what it shows, for readers who cannot see it
    """

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
class Code:
    """Preformatted text below a title.

    Args:
        title: the line that stays visible
        text: the text, shown as it is
        is_open: False to fold the text away until the reader clicks on the title
    """

    title: str
    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Fact:
    """A number at the top of a page.

    Args:
        value: the number, as it is shown
        label: what the number is
    """

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
    """A page.

    Args:
        title: title of the page
        headline: the conclusion, in a sentence
        sections: the sections, in their order
        facts: the numbers below the headline
    """

    title: str
    headline: str
    sections: Sequence[Section]
    facts: Sequence[Fact] = ()


def to_html(page: Page) -> str:
    """Return the page as text."""
    return render("page.html", {"page": page, "version": version("noisebound")})


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    write_text(path, to_html(page))
