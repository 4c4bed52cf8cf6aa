"""Fail the build if a page would load anything from another host; links to other hosts are fine."""

import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="?(?:canonical|prev|next)))"""
    r"""[^>]*\s(?:src|srcset|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that makes a browser load something from another host."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} would load {found[1]} from another host")
    return output
