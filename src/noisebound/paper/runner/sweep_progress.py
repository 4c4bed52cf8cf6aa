"""The progress of a sweep: how many runs are finished, and how long the rest may take."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from noisebound.paper.protocol.run_config import RunConfig
from noisebound.paper.runner.run_store import RunStore, State
from noisebound.progress import ProgressText, time_left

_LOOK_SECONDS = 1.0  # between looks at the runs' folders, where text can change in place
_LOG_SECONDS = 60.0  # between lines of a log: sweeps take hours


class SweepProgress:
    """Shows the progress: one live line where text can change in place, else a line per minute.

    Args:
        runs: the runs of the sweep
        store: the folders of the runs
        sweep: the name of the sweep
    """

    def __init__(self, runs: Sequence[RunConfig], store: RunStore, sweep: str) -> None:
        self._runs, self._store, self._sweep = runs, store, sweep
        self._begun = time.monotonic()
        self._finished: set[RunConfig] = set()
        self._done_before = self._counts()["finished"]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def line(self) -> str:
        """Return the progress in words."""
        counts = self._counts()
        done = counts["finished"] + counts["failed"] - self._done_before
        left = counts["waiting"] + counts["running"]
        line = (
            f"{len(self._runs)} runs: {counts['finished']} finished, {counts['running']} running, "
            f"{counts['failed']} failed"
        )
        if left and done > 0:
            # a running run counts as half done
            elapsed = time.monotonic() - self._begun
            each = elapsed / (done + counts["running"] / 2)
            line += f", {time_left(each * (left - counts['running'] / 2))}"
        return line

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the line up to date within the context."""
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _counts(self) -> Counter[State]:
        return Counter(self._state(run) for run in self._runs)

    def _state(self, run: RunConfig) -> State:
        if run in self._finished:  # it remains so, and its folder need not be read again
            return "finished"
        state = self._store.state(run, self._sweep)
        if state == "finished":
            self._finished.add(run)
        return state

    def _watch(self) -> None:
        with ProgressText(log_seconds=_LOG_SECONDS) as text:
            while not self._ended.wait(_LOOK_SECONDS):
                if text.is_due:
                    text.update(self.line())
            text.update(self.line())
