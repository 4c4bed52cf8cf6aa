"""Checkpoints: where a training stands, in one file that is whole or absent. Nothing is pickled."""

import warnings
from pathlib import Path

from noisebound.errors import DataError, RunError
from noisebound.files import load_tensors, save_tensors
from noisebound.training.state import TrainingState

_KEPT = 2  # if the last is damaged, the one before it serves


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged; an earlier one is used."""


def save_checkpoint(folder: Path, state: TrainingState, identity: str) -> None:
    """Write the state after its last epoch, and remove all but the newest two.

    Args:
        folder: the folder of the run's checkpoints
        state: the state
        identity: the run's; a checkpoint of another run is refused
    """
    about = {"identity": identity, **state.about()}
    save_tensors(folder / f"epoch-{state.epoch:06}.safetensors", state.tensors(), about)
    for old in (*_existing(folder)[:-_KEPT], *folder.glob(".*.part")):
        old.unlink()  # parts are what a killed process left


def load_checkpoint(folder: Path, state: TrainingState, identity: str) -> bool:
    """Bring the state to the newest checkpoint that is whole; return False if there is none."""
    for path in reversed(_existing(folder)):
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


def _existing(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.safetensors"))
