"""A training's keeper that writes into a run folder."""

import time
import warnings

from noisebound.errors import DataError, RunError
from noisebound.estimation import OutOfFold
from noisebound.runs.checkpoints import (
    CheckpointWarning,
    load_checkpoint,
    newest_epoch,
    save_checkpoint,
)
from noisebound.runs.folder import RunFolder
from noisebound.runs.metrics_file import MetricsFile, whole_epochs
from noisebound.system.files import load_tensors, save_tensors
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices
from noisebound.training.metrics import EpochMetrics
from noisebound.training.state import TrainingState


class FolderKeeper:
    """Keeps the finished parts of a training in a run folder; the first rank writes.

    Args:
        folder: the run's
        config: the run's, written with the first thing that is kept
        identity: the run's; files of another run are not used
        devices: launched
        checkpoint_seconds: the most work that an interruption loses, beside the current epoch
    """

    def __init__(
        self,
        folder: RunFolder,
        config: TrainingConfig,
        identity: str,
        devices: Devices,
        checkpoint_seconds: float,
    ) -> None:
        self.folder, self.config, self.identity = folder, config, identity
        self.devices, self.checkpoint_seconds = devices, checkpoint_seconds
        self._metrics: MetricsFile | None = None
        self._saved_at = 0.0

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return predictions that this run kept, if they are whole."""
        return read_out_of_fold(self.folder, name, self.identity)

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Write predictions, whole or not at all."""
        self.folder.begin(self.config)
        tensors = {
            "logits": found.logits,
            "labels": found.labels,
            "positions": found.positions,
        }
        if found.hits is not None:
            tensors["hits"] = found.hits
        if found.is_trusted is not None:
            tensors["is_trusted"] = found.is_trusted
        if found.validation is not None:
            tensors["validation_logits"] = found.validation.logits
            tensors["validation_labels"] = found.validation.labels
            tensors["validation_positions"] = found.validation.positions
        about = {"identity": self.identity, "is_underfit": found.is_underfit}
        save_tensors(self.folder.out_of_fold(name), tensors, about)

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        """Bring the state to the last epoch of both checkpoints and metrics; return the metrics."""
        known = whole_epochs(self.folder.metrics)
        newest = newest_epoch(self.folder.checkpoints)
        if newest > 0 and not known:
            raise RunError(
                f"{self.folder.metrics} lacks epochs that the checkpoint has: restore it, or begin "
                "anew in another folder"
            )
        load_checkpoint(self.folder.checkpoints, state, self.identity, last_epoch=len(known))
        if newest > len(known) and self.devices.is_global_zero:
            warnings.warn(
                f"{self.folder.metrics} has {len(known)} whole lines and the newest checkpoint is "
                f"of epoch {newest}: going back to epoch {state.epoch}",
                CheckpointWarning,
                stacklevel=2,
            )
        self._saved_at = time.monotonic()
        self.devices.barrier()  # all ranks have read before one writes
        return known[: state.epoch]

    def keep_epoch(self, state: TrainingState, metrics: EpochMetrics, *, is_last: bool) -> None:
        """Write the epoch's metrics, and a checkpoint if one is due."""
        if self._metrics is None:
            self.folder.begin(self.config)
            self._metrics = MetricsFile(self.folder.metrics, metrics.epoch - 1)
        self._metrics.append(metrics)
        if is_last or time.monotonic() - self._saved_at >= self.checkpoint_seconds:
            self._metrics.sync()  # first, so that no checkpoint is ahead of the metrics
            save_checkpoint(self.folder.checkpoints, state, self.identity)
            self._saved_at = time.monotonic()


def read_out_of_fold(
    folder: RunFolder, name: str = "all", identity: str | None = None
) -> OutOfFold | None:
    """Return a run's out-of-fold predictions; None if they are absent, damaged or another run's.

    Args:
        folder: the run's
        name: ``"all"`` for a cross-fit, one of its folds, or another name
        identity: the run's; by default any run's
    """
    try:
        tensors, about = load_tensors(folder.out_of_fold(name))
    except (OSError, DataError):
        return None
    if identity not in (None, about["identity"]):
        return None
    validation = None
    if "validation_logits" in tensors:
        validation = OutOfFold(
            tensors["validation_logits"],
            tensors["validation_labels"],
            tensors["validation_positions"],
        )
    return OutOfFold(
        tensors["logits"],
        tensors["labels"],
        tensors["positions"],
        about["is_underfit"],
        tensors.get("hits"),
        tensors.get("is_trusted"),
        validation,
    )
