"""Docstrings as the site shows them; they are written for whoever reads the code.

There an example stands under ``Example:``, which Griffe takes for a remark, and other things are
named as Sphinx does, ``:class:`Loss```. This file is both Griffe's extension and MkDocs' hook.
"""

import re

import griffe

_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|meth|func|data|attr|mod):<code>~?([\w.]+)</code>")
_PACKAGE = "noisebound"


class Examples(griffe.Extension):
    """Call an example what Griffe calls one, so that it is shown as code."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Once for each documented thing."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"\1Examples:", obj.docstring.value)


def on_page_content(content: str, **_: object) -> str:
    """Make each role a link where the site documents its target, and its bare name elsewhere."""

    def link(match: re.Match[str]) -> str:
        path = match[1] if match[1].startswith(f"{_PACKAGE}.") else f"{_PACKAGE}.{match[1]}"
        name = match[1].rpartition(".")[2]
        return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'

    return _ROLE.sub(link, content)
