"""Where a run stands, in one file that is whole or absent.

Tensors are kept by safetensors, the rest as JSON beside them; nothing is pickled. Orders,
augmentation and dropout follow from the seed and the epoch, so that no generator needs keeping.
"""

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from noisebound.errors import InvalidValueError
from noisebound.files import written_whole

_KEPT = 2  # if the last is damaged, the one before it serves


@dataclass(eq=False)
class TrainingState:
    """What changes from epoch to epoch."""

    model: nn.Module
    averaged: AveragedModel | None
    criterion: nn.Module
    optimizer: Optimizer
    epoch: int = 0  # how many are done


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged; an earlier one is used."""


def save_checkpoint(folder: Path, state: TrainingState, identity: str) -> None:
    """Write the state after its last epoch, and remove all but the newest two.

    Args:
        folder: of the run's checkpoints
        state: what to write
        identity: of the run; a checkpoint of another is refused
    """
    tensors, rest = _flattened(state)
    about = json.dumps({"identity": identity, "epoch": state.epoch, **rest}, sort_keys=True)
    with written_whole(_path(folder, state.epoch)) as part:
        save_file(tensors, part, metadata={"about": about, "digest": _digest(tensors, about)})
    for old in (*_existing(folder)[:-_KEPT], *folder.glob(".*.part")):
        old.unlink()  # parts are what a killed process left


def load_checkpoint(folder: Path, state: TrainingState, identity: str) -> bool:
    """Bring the state to the newest checkpoint that is whole; False if there is none."""
    for path in reversed(_existing(folder)):
        try:
            tensors, about = _read(path)
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            warnings.warn(
                f"checkpoint {path} is damaged ({error}); going on from the one before it",
                CheckpointWarning,
                stacklevel=2,
            )
            continue
        if about["identity"] != identity:
            raise InvalidValueError(
                f"{path} belongs to a run with another config or other data: continue with the "
                "same ones, or choose another --out"
            )
        _restore(state, tensors, about["param_groups"])
        state.epoch = about["epoch"]
        return True
    return False


def _path(folder: Path, epoch: int) -> Path:
    return folder / f"epoch-{epoch:06}.safetensors"


def _existing(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.safetensors"))


def _flattened(state: TrainingState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    optimizer = state.optimizer.state_dict()
    tensors = {f"model.{name}": value for name, value in state.model.state_dict().items()}
    tensors |= {f"criterion.{name}": value for name, value in state.criterion.state_dict().items()}
    if state.averaged is not None:
        tensors |= {f"averaged.{k}": value for k, value in state.averaged.state_dict().items()}
    for index, entry in optimizer["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in entry.items()}
    # clones: safetensors refuses tensors that share memory
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    return tensors, {"param_groups": optimizer["param_groups"]}


def _restore(
    state: TrainingState, tensors: dict[str, Tensor], param_groups: list[dict[str, Any]]
) -> None:
    state.model.load_state_dict(_below(tensors, "model."))
    state.criterion.load_state_dict(_below(tensors, "criterion."))
    if state.averaged is not None:
        state.averaged.load_state_dict(_below(tensors, "averaged."))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in _below(tensors, "optimizer.").items():
        index, _, key = name.partition(".")
        moments.setdefault(int(index), {})[key] = value
    state.optimizer.load_state_dict({"state": moments, "param_groups": param_groups})


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, framework="pt") as stored:
        metadata = stored.metadata() or {}
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    if _digest(tensors, metadata["about"]) != metadata["digest"]:
        raise InvalidValueError("its content does not match its checksum")
    return tensors, json.loads(metadata["about"])


def _digest(tensors: dict[str, Tensor], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tuple(tensors[name].shape)} {tensors[name].dtype}".encode())
        digest.update(tensors[name].contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
