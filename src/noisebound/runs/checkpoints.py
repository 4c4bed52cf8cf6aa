"""Checkpoints: the state of a training in one file, written atomically. Nothing is pickled."""

import warnings
from pathlib import Path

from noisebound.errors import DataError, RunError
from noisebound.system.files import PARTS, load_tensors, save_tensors
from noisebound.training.state import TrainingState

_KEPT = 2  # if the last is damaged, the one before it serves


class CheckpointWarning(UserWarning):
    """A run goes back to an earlier checkpoint, because later files are damaged."""


def save_checkpoint(folder: Path, state: TrainingState, identity: str) -> None:
    """Write the state after its last epoch, and keep only the one before it beside it.

    Checkpoints of later epochs stay: there are such where a run had to go back.

    Args:
        folder: the folder of the run's checkpoints
        state: the state
        identity: the run's; a checkpoint of another run is refused
    """
    about = {"identity": identity, **state.about()}
    save_tensors(folder / f"epoch-{state.epoch:06}.safetensors", state.tensors(), about)
    for old in (*_existing(folder, state.epoch)[:-_KEPT], *folder.glob(PARTS)):
        old.unlink()  # including the partial files of killed processes


def load_checkpoint(
    folder: Path, state: TrainingState, identity: str, last_epoch: int | None = None
) -> bool:
    """Bring the state to the newest checkpoint that is whole; return False if there is none.

    Args:
        folder: the folder of the run's checkpoints
        state: the state before the first epoch
        identity: the run's; a checkpoint of another run is refused
        last_epoch: checkpoints of later epochs are ignored; no limit by default
    """
    for path in reversed(_existing(folder, last_epoch)):
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


def newest_epoch(folder: Path) -> int:
    """Return the epoch of the newest checkpoint, whole or not; 0 if there is none."""
    return max(map(_epoch_of, _existing(folder)), default=0)


def _existing(folder: Path, last_epoch: int | None = None) -> list[Path]:
    paths = sorted(folder.glob("epoch-*.safetensors"), key=_epoch_of)
    return [path for path in paths if last_epoch is None or _epoch_of(path) <= last_epoch]


def _epoch_of(path: Path) -> int:
    number = path.stem.removeprefix("epoch-")
    return int(number) if number.isdecimal() else 0
