r"""Convert formulas to MathML when the site is built: no script, no font, no other host.

`pymdownx.arithmatex` marks the formulas between dollar signs, on pages and in docstrings. This hook
replaces each one with MathML, which browsers draw without help. The converter leaves what it does
not know unchanged, with its backslash; that fails the build.
"""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

# <span class="arithmatex">\(…\)</span> is inline, <div class="arithmatex">\[…\]</div> is a block
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Convert the formulas of a page."""

    def draw(match: re.Match[str]) -> str:
        element, escaped = match.groups()
        latex = html.unescape(escaped).strip()
        drawn = convert(latex, display="block" if element == "div" else "inline")
        if "\\" in drawn:
            raise PluginError(f"{page.file.src_uri}: no MathML for the formula {latex!r}: {drawn}")
        drawn = drawn.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em" />')
        return drawn if element == "span" else f'<div class="formula">{drawn}</div>'

    return _FORMULA.sub(draw, content)
