"""Add the folders next to `docs/`, `results/`, `benchmarks/` and `examples/`, to the site.

A link between these folders, such as `../results/paper/README.md`, works both on the site and in
the repository.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_FOLDERS = ("results", "benchmarks", "examples")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Add the pages, their data, their scripts and their figures to the site's files."""
    root = Path(config.config_file_path).parent
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.*")):
            if path.suffix != ".pyc":
                relative = path.relative_to(root).as_posix()
                files.append(File(relative, str(root), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrite links for the site, where the content of `docs/` lies beside the other folders."""
    on_site = page.file.src_uri
    in_repository = on_site if on_site.startswith(_FOLDERS) else f"docs/{on_site}"

    def rewritten(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), match[1]))
        return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(on_site) or ".")

    return _LINK.sub(rewritten, markdown)
