"""One self-contained HTML page: no request to anywhere, every text escaped."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from noisebound.data.folders import written_whole
from noisebound.report.rendering import render
from noisebound.report.table import Table


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows in words, for those who cannot see it."""

    figure: Figure
    description: str

    @property
    def source(self) -> str:
        """Itself, in place of an address: an image in a page cannot run scripts."""
        stream = io.BytesIO()
        with rc_context({"svg.hashsalt": "noisebound"}):  # the same picture, the same text
            self.figure.savefig(stream, format="svg", metadata={"Date": None})
        return f"data:image/svg+xml;base64,{base64.b64encode(stream.getvalue()).decode()}"


@dataclass(frozen=True)
class Code:
    """Text as it is, folded away under a title."""

    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a page, in this order."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    code: Sequence[Code] = ()


@dataclass(frozen=True)
class Page:
    """A page: what it comes to first, then the parts."""

    title: str
    headline: str
    sections: Sequence[Section]


def to_html(page: Page) -> str:
    """The page as text."""
    return render("page.html", {"page": page})


def write_page(page: Page, path: Path) -> None:
    """Whole or not at all."""
    with written_whole(path) as part:
        part.write_text(to_html(page), encoding="utf-8")
