r"""Formulas as MathML, made when the site is built: no script, no font, no other host.

`pymdownx.arithmatex` marks what stands between dollars, on pages and in docstrings alike; here each
mark becomes what browsers draw by themselves. What the converter does not know it leaves as it is,
backslash and all; that fails the build.
"""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

# <span class="arithmatex">\(…\)</span> within a line, <div class="arithmatex">\[…\]</div> by itself
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Draw the formulas of a page."""

    def draw(match: re.Match[str]) -> str:
        element, escaped = match.groups()
        latex = html.unescape(escaped).strip()
        drawn = convert(latex, display="block" if element == "div" else "inline")
        if "\\" in drawn:
            raise PluginError(f"{page.file.src_uri}: no MathML for the formula {latex!r}: {drawn}")
        drawn = drawn.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em" />')
        return drawn if element == "span" else f'<div class="formula">{drawn}</div>'

    return _FORMULA.sub(draw, content)
