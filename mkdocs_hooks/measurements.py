"""Add the folder `results/`, which is next to `docs/` and not in it, to the site.

A link to `../results/paper/README.md` then works both on the site and in the repository.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_FOLDER = "results"


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Add the tables, their data and the figures to the site's files."""
    root = Path(config.config_file_path).parent
    for path in sorted((root / _FOLDER).rglob("*.*")):
        relative = path.relative_to(root).as_posix()
        files.append(File(relative, str(root), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Change links to the folder: on the site it is inside the documentation folder."""
    if page.file.src_uri.startswith(f"{_FOLDER}/"):
        return markdown
    return re.sub(rf"\]\(\.\./{_FOLDER}/", f"]({_FOLDER}/", markdown)
