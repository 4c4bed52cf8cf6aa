"""The explorer goes into the site as ``noisebound explore`` writes it, made anew at each build."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from noisebound.report.explorer import explorer_html


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page that docs/explorer.md frames."""
    files.append(File.generated(config, "noisebound-explorer.html", content=explorer_html()))
    return files
