"""What a training keeps so that an interruption loses nothing; who keeps it is another's matter."""

from typing import Protocol

from noisebound.estimation import OutOfFold
from noisebound.training.metrics import EpochMetrics
from noisebound.training.state import TrainingState

MEAN_OPINION = "mean"
"""The name under which the mean of several out-of-fold predictions is kept, where there are."""


class Keeper(Protocol):
    """Keeps finished folds and epochs; a training asks it first and tells it after."""

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return predictions that were kept under this name, or None."""

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
