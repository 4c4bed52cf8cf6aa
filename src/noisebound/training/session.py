"""A session: devices, progress and kept results that all trainings of one fit share."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from noisebound.estimation import OutOfFold
from noisebound.system.console import Console
from noisebound.system.progress import ProgressText
from noisebound.training.devices import (
    Devices,
    OneDevice,
    Value,
    first_rank_does,
    keep_freed_memory,
)
from noisebound.training.loggers import Logger, tell
from noisebound.training.metrics import EpochMetrics
from noisebound.training.state import TrainingState

MEAN_PREDICTIONS = "mean"
"""The name under which the mean of several out-of-fold predictions is kept."""

_WORTH_PROCESSES = 2.5
"""Seconds of trials after which the others run in processes of their own; heuristic: processes take
about four seconds to start, and long trials are usually followed by more."""


class Keeper:
    """Keeps finished folds and epochs, so that they are not computed again; this one, nothing."""

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return the predictions that were kept under a name, or None."""
        return None

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Keep predictions under a name."""

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        """Bring the state to the last epoch that was kept; return the metrics until then."""
        return []

    def keep_epoch(self, state: TrainingState, metrics: EpochMetrics, *, is_last: bool) -> None:
        """Keep the epoch that has just ended."""


@dataclass(eq=False)
class Session:
    """The devices, the keeper and the progress display of all trainings of one fit."""

    devices: Devices = field(default_factory=OneDevice)
    trial_devices: Devices | None = None  # and of cross-fits; by default the same
    keeper: Keeper = field(default_factory=Keeper)
    loggers: Sequence[Logger] = ()  # which get the metrics of the first rank, besides the keeper
    show: bool = True
    n_jobs: int = 1  # processes for trials; -1 for one per core
    state: TrainingState | None = None  # of the last network; usable after an interruption
    history: list[EpochMetrics] = field(default_factory=list)  # without those of trials
    _trial_seconds: float = 0.0

    @property
    def of_trials(self) -> Devices:
        return self.trial_devices or self.devices

    @property
    def shows(self) -> bool:
        return self.show and self.devices.is_global_zero

    def log(self, metrics: EpochMetrics, prefix: str = "") -> None:
        """Give the metrics of an epoch to the loggers, on the first rank."""
        if self.devices.is_global_zero:
            known = metrics.model_dump(exclude_none=True, exclude={"epoch"})
            found = {f"{prefix}{name}": value for name, value in known.items()}
            tell(self.loggers, "log_metrics", found, metrics.epoch)

    def announce(self, line: str) -> None:
        """Print a line about the next step on standard error."""
        if self.shows:
            Console(stderr=True, soft_wrap=True, highlight=False).print(line, markup=False)

    def kept_or_computed(self, name: str, compute: Callable[[], OutOfFold]) -> OutOfFold:
        """Return the predictions that were kept under a name; else compute and keep them."""
        found = self._kept(name)
        if found is None:
            found = compute()
            self.keep(name, found)
        return found

    def kept_or_computed_all(
        self, tasks: Mapping[str, Callable[[], OutOfFold]], title: str
    ) -> list[OutOfFold]:
        """Return the predictions of several named tasks, as `kept_or_computed` does for one.

        Long tasks are computed in parallel processes. Each computes in one thread, so that the
        results do not depend on the number of processes. A log gets one line when all are done.
        """
        found = {name: self._kept(name) for name in tasks}
        missing = [name for name, result in found.items() if result is None]
        if missing:
            started = time.perf_counter()
            with ProgressText(show=self.shows, log_seconds=math.inf) as text, one_thread():
                computed = self._computed([tasks[name] for name in missing])
                text.show(f"{title}: 0 of {len(missing)}")
                for number, (name, result) in enumerate(zip(missing, computed, strict=True), 1):
                    self.keep(name, result)
                    found[name] = result
                    text.show(f"{title}: {number} of {len(missing)}")
                seconds = time.perf_counter() - started
                text.show(f"{title}: {len(missing)} done in {seconds:.1f} s")
        return [result for result in found.values() if result is not None]

    def _computed(self, tasks: Sequence[Callable[[], OutOfFold]]) -> Iterator[OutOfFold]:
        devices = self.of_trials
        is_alone = devices.world_size == 1 and devices.device.type == "cpu"
        is_long = self._trial_seconds > _WORTH_PROCESSES
        if is_alone and is_long and effective_n_jobs(self.n_jobs) > 1:
            yield from Parallel(self.n_jobs, return_as="generator")(map(delayed(alone), tasks))
            return
        for task in tasks:
            started = time.perf_counter()
            yield task()
            self._trial_seconds += time.perf_counter() - started

    def _kept(self, name: str) -> OutOfFold | None:
        """Return the first rank's predictions on every rank."""
        found = self.keeper.read_out_of_fold(name) if self.of_trials.is_global_zero else None
        return self.of_trials.broadcast(found)

    def keep(self, name: str, found: OutOfFold) -> None:
        """Keep predictions under a name, on the first rank."""
        first_rank_does(self.of_trials, partial(self.keeper.keep_out_of_fold, name, found))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch, BLAS and scikit-learn compute in one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def alone(task: Callable[[], Value]) -> Value:
    """Compute in a separate process, which does one task after another."""
    keep_freed_memory()
    with one_thread():
        return task()
