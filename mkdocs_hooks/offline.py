"""The site asks no other host for anything: a page that would fails the build. Links may."""

import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="?(?:canonical|prev|next)))"""
    r"""[^>]*\s(?:src|srcset|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse what a browser would fetch by itself from elsewhere."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} would load {found[1]} from another host")
    return output
