"""The files that a training writes as it goes: metrics, checkpoints, out-of-fold predictions.

Checkpoints are written atomically, and nothing is pickled.
"""

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from noisebound.errors import DataError, RunError
from noisebound.estimation import OutOfFold
from noisebound.runs.folder import RunFolder, write_model
from noisebound.system.files import load_tensors, save_tensors, write_text
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices
from noisebound.training.metrics import EpochMetrics
from noisebound.training.session import Keeper
from noisebound.training.state import TrainingState

_VALIDATION = "validation_"  # begins the names of the validation split's tensors
_FLAGS = ("is_underfit", "counts_alike")
_KEPT = 2  # checkpoints: if the last is damaged, the one before it serves


class CheckpointWarning(UserWarning):
    """A run goes back to an earlier checkpoint, because a later one is damaged."""


@dataclass(eq=False)
class FolderKeeper(Keeper):
    """Keeps the finished parts of a training in a run folder; the first rank writes."""

    folder: RunFolder
    config: TrainingConfig  # written with the first file
    identity: str  # files of a run with another one are not used
    devices: Devices
    checkpoint_seconds: float
    _history: list[EpochMetrics] = field(default_factory=list)
    _has_begun: bool = False
    _saved_at: float = 0.0

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        return read_out_of_fold(self.folder, name, self.identity)

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        write_model(self.folder.config, self.config)
        tensors = _tensors(found)
        if found.validation is not None:
            tensors |= _tensors(found.validation, _VALIDATION)
        about = {name: getattr(found, name) for name in (*_FLAGS, "annotators")}
        about |= {"identity": self.identity}
        save_tensors(self.folder.out_of_fold(name), tensors, about)

    def resume(self, state: TrainingState) -> list[EpochMetrics]:
        self._history = load_checkpoint(self.folder.checkpoints, state, self.identity)
        if self._history and self.devices.is_global_zero:
            self._write_history()
        self._saved_at = time.monotonic()
        self.devices.barrier()  # all ranks have read before one writes
        return self._history.copy()

    def keep_epoch(self, state: TrainingState, metrics: EpochMetrics, *, is_last: bool) -> None:
        if not self._has_begun:
            write_model(self.folder.config, self.config)
            self._write_history()
            self._has_begun = True
        self._history.append(metrics)
        with self.folder.metrics.open("a", encoding="utf-8") as file:
            file.write(_line(metrics))
        if is_last or time.monotonic() - self._saved_at >= self.checkpoint_seconds:
            save_checkpoint(self.folder.checkpoints, state, self.identity, self._history)
            self._saved_at = time.monotonic()

    def _write_history(self) -> None:
        """Write the metrics up to the checkpoint: later epochs are done again."""
        write_text(self.folder.metrics, "".join(map(_line, self._history)))


def _tensors(found: OutOfFold, prefix: str = "") -> dict[str, Tensor]:
    known = vars(found).items()
    return {f"{prefix}{name}": value for name, value in known if isinstance(value, Tensor)}


def read_out_of_fold(
    folder: RunFolder, name: str = "all", identity: str | None = None
) -> OutOfFold | None:
    """Return a run's out-of-fold predictions, unless they are absent, damaged or another run's.

    The name is ``"all"`` for a cross-fit, or that of one of its folds. By default, any run's count.
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
    train: dict[str, Any] = tensors | {name: about[name] for name in _FLAGS}
    names, validation = tuple(about["annotators"]), OutOfFold(**inner) if inner else None
    return OutOfFold(**train, annotators=names, validation=validation)


def read_metrics(path: Path) -> list[EpochMetrics]:
    """Return the metrics of every epoch; an unfinished last line is left out."""
    history: list[EpochMetrics] = []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            history.append(EpochMetrics.model_validate_json(line))
            if history[-1].epoch != number:
                raise ValueError(f"it is of epoch {history[-1].epoch}")
        except ValueError as error:
            raise DataError(
                f"{path} is damaged in line {number}, or of another version of noisebound: "
                f"{error}; restore it"
            ) from error
    return history


def _line(metrics: EpochMetrics) -> str:
    return f"{json.dumps(metrics.model_dump(), allow_nan=False)}\n"


def save_checkpoint(
    folder: Path, state: TrainingState, identity: str, history: Sequence[EpochMetrics] = ()
) -> None:
    """Write the state after its last epoch, and keep only one earlier checkpoint.

    Checkpoints of later epochs stay: they exist where a run had to go back.
    """
    metrics = [each.model_dump() for each in history]
    about = {"identity": identity, "history": metrics, **state.about()}
    save_tensors(folder / f"epoch-{state.epoch:06}.safetensors", state.tensors(), about)
    known = [path for epoch, path in _checkpoints(folder).items() if epoch <= state.epoch]
    for old in known[:-_KEPT]:
        old.unlink()


def load_checkpoint(folder: Path, state: TrainingState, identity: str) -> list[EpochMetrics]:
    """Restore the newest whole checkpoint, if there is one, and return the metrics until then.

    A checkpoint of a run with another hash is refused.
    """
    for path in reversed(_checkpoints(folder).values()):
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
        return [EpochMetrics.model_validate(each) for each in about["history"]]
    return []


def _checkpoints(folder: Path) -> dict[int, Path]:
    """Return the checkpoints by their epoch, in order."""
    found = {
        int(number): path
        for path in folder.glob("epoch-*.safetensors")
        if (number := path.stem.removeprefix("epoch-")).isdecimal()
    }
    return dict(sorted(found.items()))
