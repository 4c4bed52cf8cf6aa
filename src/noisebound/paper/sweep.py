"""Many runs, which may be interrupted and continued, and their progress.

The result of a run is in its folder alone, so it does not matter which worker does it, or in how
many attempts.
"""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from noisebound.paper.plan import RunConfig
from noisebound.paper.run import Execution, RunStore, State
from noisebound.paper.sources import DataSources
from noisebound.paper.workers import WorkerDiedError, Workers, do_runs
from noisebound.system.progress import ProgressText, time_left

# Heuristics: one death may be an accident, and every further one costs the start of workers.
_DEATHS_OF_A_SUSPECT = 2
"""A run during which this many workers died is done alone."""
_DEATHS_IN_VAIN = 3
"""A sweep ends with an error after this many workers in a row died without doing a run."""
_LOOK_SECONDS = 1.0  # between looks at the runs' folders, on a terminal
_LOG_SECONDS = 60.0  # between lines of a log: sweeps take hours


def run_sweep(
    runs: Sequence[RunConfig],
    store: RunStore,
    sources: DataSources,
    workers: Workers,
    *,
    checkpoint_seconds: float = 30.0,
) -> dict[RunConfig, str]:
    """Do the unfinished runs; return those that failed, with their errors.

    When a worker dies, the runs that were under way are continued. A run that was under way when
    workers died twice is done alone: if its worker dies again, the run is to blame and has failed.

    Args:
        runs: the runs to finish
        store: the folders of the runs
        sources: where the data is
        workers: how many processes do them, and where
        checkpoint_seconds: seconds between checkpoints, which are written after an epoch
    """
    sweep = _Sweep(runs, store, sources, workers, checkpoint_seconds)
    with SweepProgress(sweep.runs, store, sweep.name).shown():
        sweep.run()
    errors = {run: store.error(run) for run in sweep.runs if store.result(run) is None}
    return {run: error for run, error in errors.items() if error is not None}


class _Sweep:
    """The runs of a sweep, and which of them were under way when workers died."""

    def __init__(
        self,
        runs: Sequence[RunConfig],
        store: RunStore,
        sources: DataSources,
        workers: Workers,
        checkpoint_seconds: float,
    ) -> None:
        self.name = secrets.token_hex(8)
        self.runs = list(dict.fromkeys(runs))
        # absolute, because workers may run in another folder
        self.store = RunStore(store.path.resolve())
        self.workers = workers
        self.execution = Execution(
            self.store,
            sources.resolved(),
            self.name,
            checkpoint_seconds=checkpoint_seconds,
        )
        self.deaths: Counter[RunConfig] = Counter()
        self.deaths_in_vain = 0

    def run(self) -> None:
        to_do = [run for run in self.runs if self.store.state(run) != "finished"]
        for run in to_do:
            self.store.forget_failure(run)
        while to_do:
            suspects = [run for run in to_do if self.deaths[run] >= _DEATHS_OF_A_SUSPECT]
            for run in suspects:
                self._do_alone(run)
            self._do_together([run for run in to_do if run not in suspects])
            to_do = [run for run in to_do if self.store.state(run) not in ("finished", "failed")]

    def _do_together(self, runs: Sequence[RunConfig]) -> None:
        try:
            do_runs(runs, self.execution, self.workers)
        except WorkerDiedError as error:
            self._note_death(runs, error)
            return
        for run in runs:
            if self.store.state(run) not in ("finished", "failed"):
                raise FileNotFoundError(
                    f"{run.description} was done, but there is no result in "
                    f"{self.store.folder(run).path}: do all machines see that folder?"
                )

    def _note_death(self, runs: Sequence[RunConfig], error: WorkerDiedError) -> None:
        under_way = [run for run in runs if self.store.state(run, self.name) == "running"]
        for run in under_way:
            self.store.unmark(run)
        self.deaths.update(under_way)
        self.deaths_in_vain = 0 if under_way else self.deaths_in_vain + 1
        if self.deaths_in_vain >= _DEATHS_IN_VAIN:
            raise error

    def _do_alone(self, run: RunConfig) -> None:
        try:
            do_runs([run], self.execution, replace(self.workers, jobs=1))
        except WorkerDiedError as error:
            self.store.unmark(run)
            self.store.record_failure(run, f"its worker died: {error}", "")


class SweepProgress:
    """Shows the progress: one live line on a terminal, or one log line per minute.

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
                text.show(self.line())
            text.show(self.line())
