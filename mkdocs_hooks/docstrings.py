"""Adapt docstrings, which are written for readers of the code, to the site.

In the code, an example is under ``Example:``, which Griffe would show as a remark, and references
are Sphinx roles such as ``:class:`Loss```. This file is both a Griffe extension and an MkDocs hook.
"""

import re

import griffe

_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|meth|func|data|attr|mod):<code>~?([\w.]+)</code>")
_PACKAGE = "noisebound"


class Examples(griffe.Extension):
    """Rename ``Example:`` to Griffe's ``Examples:``, so that examples are shown as code."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rename the section in the docstring of one documented object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"\1Examples:", obj.docstring.value)


def on_page_content(content: str, **_: object) -> str:
    """Turn each role into a link if the site documents its target, and into a plain name if not."""

    def link(match: re.Match[str]) -> str:
        path = match[1] if match[1].startswith(f"{_PACKAGE}.") else f"{_PACKAGE}.{match[1]}"
        name = match[1].rpartition(".")[2]
        return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'

    return _ROLE.sub(link, content)
