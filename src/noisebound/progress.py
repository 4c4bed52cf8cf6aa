"""Progress bars on standard error, shown only if it is a terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

Item = TypeVar("Item")


def track(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Yield the items while a bar counts them.

    Args:
        items: what to iterate over
        description: text beside the bar
        total: number of items
    """
    with _bar(MofNCompleteColumn()) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def counting(description: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar with the items per second and the time left; yield what counts more items.

    Args:
        description: text beside the bar
        total: number of items
        done: number of items that an earlier attempt left
    """
    with _bar(MofNCompleteColumn(), _SpeedColumn()) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda number: progress.advance(task, number)


class _SpeedColumn(ProgressColumn):
    """The number of items per second."""

    def render(self, task: Task) -> Text:
        """Return the speed as text."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


@contextmanager
def transfer(description: str, total: int | None, done: int) -> Iterator["Transfer"]:
    """Show a bar that counts the bytes of a download, and yield the handle that advances it.

    Args:
        description: text beside the bar
        total: size of the download in bytes; None if the server does not say
        done: number of bytes that an earlier attempt left
    """
    with _bar(DownloadColumn(), TransferSpeedColumn()) as progress:
        yield Transfer(progress, description, total, done)


class Transfer:
    """The handle of a download's bar."""

    def __init__(self, progress: Progress, description: str, total: int | None, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=done)

    def advance(self, count: int) -> None:
        """Count ``count`` more bytes."""
        self._progress.advance(self._task, count)


def _bar(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
