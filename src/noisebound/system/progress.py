"""Progress: live on a terminal, one log line every 10 s elsewhere."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TypeVar

from rich import progress as rich_progress
from rich.filesize import decimal
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.text import Text

from noisebound.system.console import Console

LOG_SECONDS = 10.0
"""Seconds between the lines of a log."""

_SHOWS: ContextVar[bool] = ContextVar("shows", default=True)

Item = TypeVar("Item")


@contextmanager
def progress_shown(show: bool) -> Iterator[None]:
    """Show all progress within the context, or none."""
    before = _SHOWS.set(show)
    try:
        yield
    finally:
        _SHOWS.reset(before)


class Progress(rich_progress.Progress):
    """Rich's progress on a terminal, log lines elsewhere.

    Two lines of a log are at least ``log_seconds`` apart. Unless ``log_short``, work that ends
    before the first line is due is not logged.
    """

    def __init__(
        self,
        *columns: ProgressColumn,
        show: bool = True,
        log_seconds: float = LOG_SECONDS,
        log_short: bool = True,
    ) -> None:
        is_first_rank = os.environ.get("LOCAL_RANK", "0") == "0"  # all ranks do the same work
        super().__init__(
            *columns,
            # In a notebook, rich's own progress would need ipywidgets. Colors may be forced there,
            # as in a log, but the cursor cannot move.
            console=Console(
                stderr=True,
                soft_wrap=True,
                highlight=False,
                force_jupyter=False,
                force_terminal=None if sys.stderr.isatty() else False,
            ),
            refresh_per_second=4,
            transient=True,
            disable=not (show and is_first_rank and _SHOWS.get()),
        )
        self._log_seconds, self._must_log = log_seconds, log_short
        self._logged_at = self.get_time()
        self._line: Callable[[], str] | None = None  # the newest state, if it is not logged yet

    def start(self) -> None:
        """Begin to draw, on a terminal."""
        if self.console.is_terminal:
            super().start()

    def stop(self) -> None:
        """Remove the drawing from a terminal, or log the last state."""
        if self.console.is_terminal:
            super().stop()
        elif self._must_log:
            self._log()

    def log_state(self, line: Callable[[], str]) -> None:
        """Log the newest state, if it is time and there is no terminal."""
        self._line = line
        is_due = self.get_time() - self._logged_at >= self._log_seconds
        if is_due and not self.console.is_terminal:
            self._must_log = True
            self._log()

    def _log(self) -> None:
        if not self.disable and self._line is not None:
            self.console.print(self._line(), markup=False)
            self._logged_at, self._line = self.get_time(), None


class ProgressText(Progress):
    """A context that shows the current state of some work as one line."""

    def __init__(self, *, show: bool = True, log_seconds: float = LOG_SECONDS) -> None:
        column = TextColumn("{task.description}", markup=False)
        super().__init__(column, show=show, log_seconds=log_seconds)
        self._task = self.add_task("", total=None)

    def show(self, line: str) -> None:
        self.update(self._task, description=line)
        self.log_state(lambda: line)


class _Words(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_in_words(task))


def _in_words(task: Task) -> str:
    amount = decimal if task.fields["unit"] == "bytes" else "{:,}".format
    words = amount(int(task.completed))
    if task.total is not None:
        words += f" of {amount(int(task.total))}"
    if task.speed is not None and task.speed >= 1:
        words += f", {amount(int(task.speed))} per second"
    return f"{words}, {time_left(task.time_remaining)}" if task.time_remaining else words


@contextmanager
def counting(
    description: str, total: int | None, *, unit: str = "", done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Show how many items are done, and yield a function that counts more of them.

    The ``unit`` may be ``"bytes"``; ``done`` items were finished before.

    Example:
        >>> with counting("embedding", 6_000) as advance:
        ...     advance(64)
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), _Words())
    with Progress(*columns, log_short=False) as progress:
        task = progress.add_task(description, total=total, completed=done, unit=unit)

        def advance(number: int) -> None:
            progress.advance(task, number)
            progress.log_state(lambda: f"{description}: {_in_words(progress.tasks[0])}")

        yield advance


def track(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Yield the items and count them, as in ``track(images, "reading", len(images))``."""
    with counting(description, total) as advance:
        for item in items:
            yield item
            advance(1)


def time_left(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> time_left(75.2)
        'about 0:01:15 left'
    """
    return f"about {timedelta(seconds=round(seconds))} left"
