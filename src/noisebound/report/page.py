"""One self-contained HTML page: no request to anywhere, every text escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from matplotlib.figure import Figure

from noisebound.files import write_text
from noisebound.report.embedding import embedded_figure
from noisebound.report.gallery import Thumbnail
from noisebound.report.heat_map import HeatMap
from noisebound.report.rendering import render
from noisebound.report.table import Table

_WIDEST_PANEL = 7.0  # inches


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows in words, for those who cannot see it."""

    figure: Figure
    description: str

    @property
    def is_wide(self) -> bool:
        """Whether it has several panels side by side, too many for a phone."""
        return self.figure.get_figwidth() > _WIDEST_PANEL

    @cached_property
    def sources(self) -> tuple[str, str]:
        """Itself, in place of an address, by day and by night."""
        return embedded_figure(self.figure)


@dataclass(frozen=True)
class Code:
    """Text as it is, folded away under a title unless it is open."""

    title: str
    text: str
    is_open: bool = False


@dataclass(frozen=True)
class Fact:
    """A number worth a look, and what it is."""

    value: str
    label: str


@dataclass(frozen=True)
class Section:
    """A part of a page, in this order."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    heat_maps: Sequence[HeatMap] = ()
    gallery: Sequence[Thumbnail] = ()
    code: Sequence[Code] = ()


@dataclass(frozen=True)
class Page:
    """A page: what it comes to first, then the parts."""

    title: str
    headline: str
    sections: Sequence[Section]
    facts: Sequence[Fact] = ()


def to_html(page: Page) -> str:
    """The page as text."""
    return render("page.html", {"page": page, "version": version("noisebound")})


def write_page(page: Page, path: Path) -> None:
    """Whole or not at all."""
    write_text(path, to_html(page))
