"""Print text, notes and JSON; names from the data cannot control the terminal."""

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

# Control characters except tab and newline, and those that change the direction of writing.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_SPELLING: ContextVar[Callable[[str], str]] = ContextVar("spelling", default=str)


def printable(text: str) -> str:
    r"""Return the text with control characters escaped.

    Example:
        >>> printable("cat" + chr(27) + "[2J")
        'cat\\x1b[2J'
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Console(rich_console.Console):
    """Rich's console, which escapes control characters in the text, such as in a class name."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield rich's segments, with printable text."""
        for segment in super().render(renderable, options):
            is_text = segment.control is None
            yield Segment(printable(segment.text), segment.style) if is_text else segment


def spell_arguments(text: str) -> str:
    """Return a message with its arguments spelled for the reader: as flags on the command line."""
    return _SPELLING.get()(text)


def print_text(text: str, style: str = "") -> None:
    """Print on standard output; nothing in the text is markup."""
    Console(soft_wrap=True, highlight=False).print(text, style=style, markup=False, emoji=False)


def print_json(record: Any) -> None:
    """Print JSON on standard output, on one line."""
    print(json.dumps(record))  # noqa: T201


def print_note(text: str) -> None:
    """Print one line on standard error that begins with ``note:``."""
    line = " ".join(spell_arguments(text).split())
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"[yellow]note:[/] {escape(line)}")


@contextmanager
def warnings_as_notes(spelled: Callable[[str], str] = str) -> Iterator[None]:
    """Show Python's warnings as notes, without the file and the source line they come from.

    The same warning is shown once. Inside the context, ``spelled`` rewrites every note.
    """
    shown: set[str] = set()

    def show(message: Warning | str, *source: Any, **line: Any) -> None:
        text = spelled(str(message))
        if text not in shown:
            shown.add(text)
            print_note(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        before = _SPELLING.set(spelled)
        try:
            yield
        finally:
            _SPELLING.reset(before)
