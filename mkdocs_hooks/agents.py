"""Add `llms.txt`, a list of the pages, and `agents.txt`, a short guide for coding agents.

Both come from what people read: the pages, the help of the commands, and the docstrings.
"""

import inspect
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import noisebound
from noisebound.cli import app

_SECTIONS = {
    "start.md": "Or no loop at all",
    "choosing.md": "What not to do",
    "from-paper-to-code.md": "Pitfalls",
}
"""Sections of pages that the guide repeats."""


def on_env(env: object, config: MkDocsConfig, files: Files) -> object:
    """Add both files, once all pages are read."""
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    summary = f"# noisebound\n\n> {config.site_description}\n\n"
    for name, content in (("llms.txt", _contents(pages)), ("agents.txt", _guide(pages))):
        files.append(File.generated(config, name, content=summary + content))
    return env


def _contents(pages: list[Page]) -> str:
    """List each page with its first sentence."""
    lines = [f"- [{page.title}]({page.url}): {_first_sentence(page)}" for page in pages]
    return "\n".join(["- [Guide for coding agents](agents.txt)", *sorted(lines)]) + "\n"


def _first_sentence(page: Page) -> str:
    paragraphs = re.split(r"\n\s*\n", (page.markdown or "").strip())
    prose = next((each for each in paragraphs if re.match(r"[\w`*]", each)), "")
    without_links = re.sub(r"\[(.*?)\]\(\S+?\)", r"\1", " ".join(prose.split()))
    return re.split(r"(?<=\.)\s", without_links)[0]


def _guide(pages: list[Page]) -> str:
    commands = [
        f"- `noisebound {name}`: {_first_line(app[name].help)}"
        for name in app
        if not name.startswith("-")
    ]
    names = [
        f"- `nb.{name}`: {_first_line(inspect.getdoc(getattr(noisebound, name)))}"
        for name in noisebound.__all__
        if callable(getattr(noisebound, name))
    ]
    sections = [
        _section(page.markdown or "", _SECTIONS[page.file.src_uri])
        for page in pages
        if page.file.src_uri in _SECTIONS
    ]
    parts = [
        "## Commands (`--help` shows the options of each)",
        "\n".join(commands),
        "## Python: `import noisebound as nb`",
        "\n".join(names),
        *sections,
    ]
    return "\n\n".join(parts) + "\n"


def _section(markdown: str, heading: str) -> str:
    """Return a section with its heading; a page that lost it fails the build."""
    _, found, rest = markdown.partition(f"## {heading}\n")
    assert found, f"no section {heading!r}"
    return found + rest.partition("\n## ")[0].rstrip()


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]
