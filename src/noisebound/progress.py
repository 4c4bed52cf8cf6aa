"""Progress of long work, on standard error, and only where someone is looking."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

Item = TypeVar("Item")


def track(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """The items, with a bar that counts them."""
    with _bar(MofNCompleteColumn()) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def transfer(description: str, total: int | None, done: int) -> Iterator["Transfer"]:
    """A bar in bytes for a download of which ``done`` are here already."""
    with _bar(DownloadColumn(), TransferSpeedColumn()) as progress:
        yield Transfer(progress, description, total, done)


class Transfer:
    """What a download tells its bar."""

    def __init__(self, progress: Progress, description: str, total: int | None, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=done)

    def advance(self, count: int) -> None:
        """So many bytes more."""
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
