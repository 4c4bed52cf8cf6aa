"""Add the explorer, as ``noisebound explore`` writes it, to the site at each build."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from noisebound.pages.explorer import explorer_html


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page that docs/explorer.md shows in a frame."""
    files.append(File.generated(config, "noisebound-explorer.html", content=explorer_html()))
    return files
