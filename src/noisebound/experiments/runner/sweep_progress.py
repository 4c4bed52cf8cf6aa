"""How far a sweep is: runs finished, running, failed, and how long it may still take."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.live import Live
from rich.text import Text

from noisebound.experiments.protocol.run_config import RunConfig
from noisebound.experiments.runner.run_store import RunStore, State

_LOOK_SECONDS = 1.0
_LOG_SECONDS = 60.0


class SweepProgress:
    """A live line on a terminal; elsewhere a line a minute; both on standard error."""

    def __init__(self, runs: Sequence[RunConfig], store: RunStore, sweep: str) -> None:
        self._runs, self._store, self._sweep = runs, store, sweep
        self._begun = time.monotonic()
        self._finished: set[RunConfig] = set()
        self._done_before = self._counts()["finished"]
        self._console = Console(stderr=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def line(self) -> str:
        """What there is to say."""
        counts = self._counts()
        done = counts["finished"] + counts["failed"] - self._done_before
        left = counts["waiting"] + counts["running"]
        line = (
            f"{len(self._runs)} runs: {counts['finished']} finished, {counts['running']} running, "
            f"{counts['failed']} failed"
        )
        if left and done > 0:
            # those that are running count as half done
            elapsed = time.monotonic() - self._begun
            each = elapsed / (done + counts["running"] / 2)
            remaining = timedelta(seconds=round(each * (left - counts["running"] / 2)))
            line += f", about {remaining} left"
        return line

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Within it, the line is kept up to date."""
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _counts(self) -> Counter[State]:
        return Counter(self._state(run) for run in self._runs)

    def _state(self, run: RunConfig) -> State:
        if run in self._finished:  # and remains so: need not be read each time
            return "finished"
        state = self._store.state(run, self._sweep)
        if state == "finished":
            self._finished.add(run)
        return state

    def _watch(self) -> None:
        if not self._console.is_terminal:
            while not self._ended.wait(_LOG_SECONDS):
                self._console.print(self.line(), soft_wrap=True)
            return
        with Live(console=self._console, transient=True) as live:
            while not self._ended.wait(_LOOK_SECONDS):
                live.update(Text(self.line()))
