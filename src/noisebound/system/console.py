"""The one console: what it prints is text, whatever the names in the data contain."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

# Control characters but for tab and newline, and those that reverse the direction of writing.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_WORDING: ContextVar[Callable[[str], str]] = ContextVar("wording", default=str)


def printable(text: str) -> str:
    r"""Return the text with the characters that a terminal obeys spelled out.

    Example:
        >>> printable("cat" + chr(27) + "[2J")
        'cat\\x1b[2J'
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Console(rich_console.Console):
    """Rich's console, which spells out what a terminal would obey in a class or file name.

    All that noisebound prints for people goes through it. Styles are not text and pass.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of anything that can be printed, with printable text."""
        for segment in super().render(renderable, options):
            is_text = segment.control is None
            yield Segment(printable(segment.text), segment.style) if is_text else segment


def worded(text: str) -> str:
    """Return a message in the words of whoever reads it: the command line has flags."""
    return _WORDING.get()(text)


def print_note(text: str) -> None:
    """Print one line on standard error that begins with ``note:``."""
    line = " ".join(worded(text).split())
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"[yellow]note:[/] {escape(line)}")


@contextmanager
def warnings_as_notes(spelled: Callable[[str], str] = str) -> Iterator[None]:
    """Show Python's warnings as notes, without the file and the source line they come from.

    All notes are in the same words. The same warning, from wherever it comes, is shown once.

    Args:
        spelled: turns a message into the words of whoever reads it
    """
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = spelled(str(message))
        if text not in shown:
            shown.add(text)
            print_note(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        before = _WORDING.set(spelled)
        try:
            yield
        finally:
            _WORDING.reset(before)
