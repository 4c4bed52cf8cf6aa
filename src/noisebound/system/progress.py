"""Progress: live on a terminal or in a notebook, one log line every 10 s elsewhere.

On a terminal it is live text that disappears at the end, in Jupyter an output that changes in
place, and elsewhere, such as in a log file, a line on standard error every ten seconds.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, TypeVar

from rich.live import Live
from rich.text import Text

from noisebound.system.console import Console

LOG_SECONDS = 10.0
"""Between lines of a log: often enough to see that work goes on, and six lines per minute."""

_DRAW_SECONDS = 0.2  # between changes that the eye can follow
_BAR_WIDTH = 30

Item = TypeVar("Item")


class _Surface(Protocol):
    """A place that shows the newest state."""

    seconds: float

    def show(self, line: str, drawn: str) -> None:
        """Show a state: a line for logs, and what is drawn where it can change in place."""

    def end(self) -> None:
        """Show nothing more."""


class ProgressText:
    """Text about work under way, to be used as a context.

    Args:
        show: False to show nothing
        log_seconds: the least time between two lines of a log
        is_brief: True for work that is not worth a line in a log if it ends before the first is due
        clock: tells the time in seconds
    """

    def __init__(
        self,
        *,
        show: bool = True,
        log_seconds: float = LOG_SECONDS,
        is_brief: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        is_first_rank = os.environ.get("LOCAL_RANK", "0") == "0"  # the others do the same work
        self._make = _surface_factory(log_seconds) if show and is_first_rank else None
        self._is_brief, self._clock = is_brief, clock
        self._surface: _Surface | None = None
        self._newest: tuple[str, str] | None = None
        self._shown_at = 0.0
        self._was_shown = False

    def __enter__(self) -> "ProgressText":
        if self._make is not None:
            self._surface = self._make()
            self._shown_at = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._surface is None:
            return
        if self._newest is not None and (self._was_shown or not self._is_brief):
            self._surface.show(*self._newest)
        self._surface.end()

    @property
    def is_due(self) -> bool:
        """True if an update would be shown now."""
        if self._surface is None:
            return False
        return self._clock() - self._shown_at >= self._surface.seconds

    def update(self, line: str, drawn: str | None = None) -> None:
        """Take note of the newest state, and show it if it is time.

        Args:
            line: the state in one line, for a log
            drawn: what is shown where text can change in place; the line if not given
        """
        self._newest = (line, line if drawn is None else drawn)
        if self._surface is not None and self.is_due:
            self._surface.show(*self._newest)
            self._newest, self._was_shown = None, True
            self._shown_at = self._clock()


class Count:
    """How many things are done, how many per second, and how long the rest may take.

    Args:
        text: where it is shown
        description: what is being done
        total: the number of things; None if it is unknown
        done: how many were done before
        unit: what the things are called, in the plural
        clock: tells the time in seconds
    """

    def __init__(
        self,
        text: ProgressText,
        description: str,
        total: int | None,
        *,
        done: int = 0,
        unit: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._text, self._description, self._total = text, description, total
        self._done = self._done_before = done
        self._unit, self._clock = unit, clock
        self._begun = clock()

    def advance(self, count: int = 1) -> None:
        """Count ``count`` more things."""
        self._done += count
        if self._text.is_due or self._done == self._total:
            words = self._words()
            self._text.update(f"{self._description}: {words}", self._drawn(words))

    def _words(self) -> str:
        elapsed = self._clock() - self._begun
        done = _amount(self._done, self._unit)
        words = done if self._total is None else f"{done} of {_amount(self._total, self._unit)}"
        words += f" {self._unit}" if self._unit not in ("", "bytes") else ""
        fresh = self._done - self._done_before
        if elapsed <= 0 or fresh <= 0:
            return words
        words += f", {_amount(fresh / elapsed, self._unit)} per second"
        if self._total is not None and self._done < self._total:
            words += f", {time_left((self._total - self._done) * elapsed / fresh)}"
        return words

    def _drawn(self, words: str) -> str:
        if not self._total:
            return f"{self._description} {words}"
        full = min(_BAR_WIDTH, _BAR_WIDTH * self._done // self._total)
        return f"{self._description} {'━' * full}{'─' * (_BAR_WIDTH - full)} {words}"


@contextmanager
def counting(
    description: str,
    total: int | None,
    *,
    unit: str = "",
    done: int = 0,
    show: bool = True,
    is_brief: bool = True,
) -> Iterator[Count]:
    """Show how many things are done, and yield the count to advance.

    Args:
        description: what is being done
        total: the number of things; None if it is unknown
        unit: what the things are called, in the plural; ``"bytes"`` are shown as megabytes
        done: how many were done before
        show: False to show nothing
        is_brief: False to write a line to a log even if the work ends before the first is due

    Example:
        >>> with counting("embedding", 6_000, unit="texts", show=False) as count:
        ...     count.advance(64)
    """
    with ProgressText(show=show, is_brief=is_brief) as text:
        yield Count(text, description, total, done=done, unit=unit)


def track(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Yield the items while they are counted.

    Args:
        items: what to iterate over
        description: what is being done
        total: number of items
    """
    with counting(description, total) as count:
        for item in items:
            yield item
            count.advance()


def time_left(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> time_left(75.2)
        'about 0:01:15 left'
    """
    return f"about {timedelta(seconds=round(seconds))} left"


def _amount(count: float, unit: str) -> str:
    if unit == "bytes":
        return f"{count / 1e6:,.1f} MB"
    return f"{count:,.1f}" if count < 10 and count != int(count) else f"{count:,.0f}"


def _surface_factory(log_seconds: float) -> Callable[[], _Surface]:
    console = Console(stderr=True)
    if console.is_terminal:
        return lambda: _Terminal(console)
    return _Notebook if _is_notebook() else lambda: _Log(log_seconds)


def _is_notebook() -> bool:
    """True in a Jupyter kernel; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Terminal:
    """Live text, which disappears at the end."""

    seconds = 0.0  # rich draws the newest state four times per second, however often it changes

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True)
        self._live.start()

    def show(self, line: str, drawn: str) -> None:
        self._live.update(Text(drawn))

    def end(self) -> None:
        self._live.stop()


class _Notebook:
    """An output of the cell, which changes in place and shows the last state in the end."""

    seconds = _DRAW_SECONDS

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str, drawn: str) -> None:
        from IPython.display import display

        content = {"text/plain": drawn}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def end(self) -> None:
        pass


class _Log:
    """Lines on standard error."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def show(self, line: str, drawn: str) -> None:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(line)

    def end(self) -> None:
        pass
