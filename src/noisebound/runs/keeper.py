"""The files that a training writes as it goes: metrics, checkpoints, out-of-fold predictions.

Checkpoints are written atomically, and nothing is pickled.
"""

import json
import time
import warnings
from pathlib import Path
from typing import Any

from torch import Tensor

from noisebound.errors import DataError, RunError
from noisebound.estimation import OutOfFold
from noisebound.runs.folder import RunFolder
from noisebound.system.files import PARTS, append_text, load_tensors, save_tensors, sync, write_text
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices
from noisebound.training.metrics import EpochMetrics
from noisebound.training.state import TrainingState

_VALIDATION = "validation_"  # begins the names of the validation split's tensors
_KEPT = 2  # checkpoints: if the last is damaged, the one before it serves


class CheckpointWarning(UserWarning):
    """A run goes back to an earlier checkpoint, because later files are damaged."""


class FolderKeeper:
    """Keeps the finished parts of a training in a run folder; the first rank writes.

    Args:
        folder: the run folder
        config: the run's config, written with the first file
        identity: the run's hash; files of another run are not used
        devices: launched devices
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
        self._has_begun = False
        self._saved_at = 0.0

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return predictions that this run kept, if they are whole."""
        return read_out_of_fold(self.folder, name, self.identity)

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Write predictions, whole or not at all."""
        self.folder.begin(self.config)
        tensors = _tensors(found)
        if found.validation is not None:
            inner = _tensors(found.validation)
            tensors |= {f"{_VALIDATION}{part}": value for part, value in inner.items()}
        about = {"identity": self.identity, "is_underfit": found.is_underfit}
        save_tensors(self.folder.out_of_fold(name), tensors, about)

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        """Restore the last epoch of both checkpoints and metrics; return the metrics."""
        known = whole_epochs(self.folder.metrics)
        newest = max(map(_epoch_of, _checkpoints(self.folder.checkpoints)), default=0)
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
        path = self.folder.metrics
        if not self._has_begun:
            self.folder.begin(self.config)
            kept = whole_epochs(path)[: metrics.epoch - 1]  # later epochs are done again
            write_text(path, "".join(map(_line, kept)))
            self._has_begun = True
        append_text(path, _line(metrics))
        if is_last or time.monotonic() - self._saved_at >= self.checkpoint_seconds:
            sync(path)  # first, so that no checkpoint is ahead of the metrics
            save_checkpoint(self.folder.checkpoints, state, self.identity)
            self._saved_at = time.monotonic()


def _tensors(found: OutOfFold) -> dict[str, Tensor]:
    return {name: value for name, value in vars(found).items() if isinstance(value, Tensor)}


def read_out_of_fold(
    folder: RunFolder, name: str = "all", identity: str | None = None
) -> OutOfFold | None:
    """Return a run's out-of-fold predictions, unless they are absent, damaged or another run's.

    Args:
        folder: the run folder
        name: ``"all"`` for a cross-fit, one of its folds, or another name
        identity: the run's hash (default: accept any run)
    """
    try:
        tensors, about = load_tensors(folder.out_of_fold(name))
    except (OSError, DataError):
        return None
    if identity not in (None, about["identity"]):
        return None
    inner: dict[str, Any] = {
        part.removeprefix(_VALIDATION): tensors.pop(part)
        for part in list(tensors)
        if part.startswith(_VALIDATION)
    }
    train: dict[str, Any] = {**tensors, "is_underfit": about["is_underfit"]}
    return OutOfFold(**train, validation=OutOfFold(**inner) if inner else None)


def read_metrics(path: Path) -> list[EpochMetrics]:
    """Return the metrics of every epoch; an unfinished last line is left out.

    Raises:
        DataError: another line is damaged
    """
    history, damage = _read_metrics(path)
    if damage is not None:
        raise damage
    return history


def whole_epochs(path: Path) -> list[EpochMetrics]:
    """Return the metrics before the first line that is damaged or out of order."""
    return _read_metrics(path)[0]


def _read_metrics(path: Path) -> tuple[list[EpochMetrics], DataError | None]:
    """Return the metrics before the first damage, and the damage, if any."""
    history: list[EpochMetrics] = []
    *lines, rest = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for number, line in enumerate([*lines, rest] if _is_json(rest) else lines, start=1):
        try:
            metrics = EpochMetrics.of_record(json.loads(line))
            if metrics.epoch != number:
                raise DataError(f"it is of epoch {metrics.epoch}")
        except ValueError as error:
            return history, DataError(f"{path} is damaged in line {number}: {error}; restore it")
        history.append(metrics)
    return history, None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _line(metrics: EpochMetrics) -> str:
    return f"{json.dumps(metrics.record(), allow_nan=False)}\n"


def save_checkpoint(folder: Path, state: TrainingState, identity: str) -> None:
    """Write the state after its last epoch, and keep only one earlier checkpoint.

    Checkpoints of later epochs stay: they exist where a run had to go back.
    """
    about = {"identity": identity, **state.about()}
    save_tensors(folder / f"epoch-{state.epoch:06}.safetensors", state.tensors(), about)
    for old in (*_checkpoints(folder, state.epoch)[:-_KEPT], *folder.glob(PARTS)):
        old.unlink()  # including the partial files of killed processes


def load_checkpoint(
    folder: Path, state: TrainingState, identity: str, last_epoch: int | None = None
) -> bool:
    """Restore the newest whole checkpoint up to an epoch, and return whether there is one.

    A checkpoint of a run with another hash is refused.
    """
    for path in reversed(_checkpoints(folder, last_epoch)):
        try:
            tensors, about = load_tensors(path)
        except (OSError, DataError) as error:
            warnings.warn(
                f"checkpoint {path} is damaged ({error}); continuing from the one before it",
                CheckpointWarning,
                stacklevel=2,
            )
            continue
        if about["identity"] != identity:
            raise RunError(
                f"{path} belongs to a run with another config or other data: continue with the "
                "same ones, or choose another folder: `out`"
            )
        state.restore(tensors, about)
        return True
    return False


def _checkpoints(folder: Path, last_epoch: int | None = None) -> list[Path]:
    paths = sorted(folder.glob("epoch-*.safetensors"), key=_epoch_of)
    return [path for path in paths if last_epoch is None or _epoch_of(path) <= last_epoch]


def _epoch_of(path: Path) -> int:
    number = path.stem.removeprefix("epoch-")
    return int(number) if number.isdecimal() else 0
