"""Show the notebooks of `examples/`, with their stored outputs, as pages of the site."""

import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_BADGE = re.compile(r"\[!\[(.*?)\]\(https:\S+?\)\]")
_LINK = re.compile(r"(?<=\()((?!https?:)[\w./-]*)\.ipynb(?=\))")


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Add a page for each notebook."""
    for path in sorted((Path(config.config_file_path).parent / "examples").glob("*.ipynb")):
        content = "\n\n".join(map(_shown, nbformat.read(path, as_version=4).cells))
        files.append(File.generated(config, f"examples/{path.stem}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links lead to the pages of notebooks, and replace badges, which another host draws."""
    return _LINK.sub(r"\1.md", _BADGE.sub(r"[\1]", markdown))


def _shown(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    return "\n\n".join([_block(cell.source, "python"), *map(_output, cell.outputs)])


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return _block(output.text)
    if "image/png" in output.data:
        image = output.data["image/png"].replace("\n", "")
        return f'<img alt="output" src="data:image/png;base64,{image}">'
    return _block(output.data["text/plain"])


def _block(text: str, language: str = "") -> str:
    if not language:
        language = "text" if "│" in text else "{ .text .wrapped }"  # tables would break
    return f"```{language}\n{text.strip()}\n```"
