"""A session: devices, progress and kept results that all trainings of one fit share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from noisebound.estimation import OutOfFold
from noisebound.training.devices import Devices, OneDevice, first_rank_does
from noisebound.training.metrics import EpochMetrics
from noisebound.training.state import TrainingState

MEAN_PREDICTIONS = "mean"
"""The name under which the mean of several out-of-fold predictions is kept."""


class Keeper(Protocol):
    """Keeps finished folds and epochs, so that they are not computed again."""

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return the predictions that were kept under this name, or None."""

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Keep predictions under a name."""

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        """Bring the state to the last epoch that was kept; return the metrics until then."""

    def keep_epoch(self, state: TrainingState, metrics: EpochMetrics, *, is_last: bool) -> None:
        """Keep the epoch that has just ended."""


class NothingKept:
    """A keeper that keeps nothing, for trainings in memory."""

    def read_out_of_fold(self, name: str) -> None:
        """Return None."""

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Keep nothing."""

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        """Return no metrics."""
        return []

    def keep_epoch(self, state: TrainingState, metrics: EpochMetrics, *, is_last: bool) -> None:
        """Keep nothing."""


NOTHING_KEPT = NothingKept()


@dataclass(eq=False)
class Session:
    """The devices, the keeper and the progress display of all trainings of one fit.

    Args:
        devices: the devices of the training itself
        trial_devices: the devices of trials and cross-fits; by default the same
        keeper: keeps finished folds and epochs
        show: True to show progress
        state: of the network in training, or the last one; usable after an interruption
        history: the metrics of the training itself, so far
    """

    devices: Devices = field(default_factory=OneDevice)
    trial_devices: Devices | None = None
    keeper: Keeper = NOTHING_KEPT
    show: bool = True
    state: TrainingState | None = None
    history: list[EpochMetrics] = field(default_factory=list)

    @property
    def of_trials(self) -> Devices:
        """The devices of trials and cross-fits."""
        return self.trial_devices or self.devices

    @property
    def shows(self) -> bool:
        """True if this process shows progress."""
        return self.show and self.devices.is_global_zero

    def kept_or_computed(self, name: str, compute: Callable[[], OutOfFold]) -> OutOfFold:
        """Return the predictions that were kept under a name; else compute and keep them."""
        devices = self.of_trials
        found = self.keeper.read_out_of_fold(name) if devices.is_global_zero else None
        found = devices.broadcast(found)
        if found is None:
            found = compute()
            self.keep(name, found)
        return found

    def kept_or_computed_all(self, tasks: Mapping[str, Callable[[], OutOfFold]]) -> list[OutOfFold]:
        """Return the predictions of several tasks, as `kept_or_computed` does for one."""
        return [self.kept_or_computed(name, compute) for name, compute in tasks.items()]

    def keep(self, name: str, found: OutOfFold) -> None:
        """Keep predictions under a name, on the first rank."""
        first_rank_does(self.of_trials, partial(self.keeper.keep_out_of_fold, name, found))
