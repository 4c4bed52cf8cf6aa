"""Docstrings name other things as Sphinx does, ``:class:`Loss```; on the site those are links."""

import re

_ROLE = re.compile(r":(?:class|meth|func|data|attr|mod):<code>~?([\w.]+)</code>")
_PACKAGE = "noisebound"


def on_page_content(content: str, **_: object) -> str:
    """Make each a link where the site documents it, and its bare name elsewhere."""

    def link(match: re.Match[str]) -> str:
        path = match[1] if match[1].startswith(f"{_PACKAGE}.") else f"{_PACKAGE}.{match[1]}"
        name = match[1].rpartition(".")[2]
        return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'

    return _ROLE.sub(link, content)
