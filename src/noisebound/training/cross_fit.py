"""Predictions for every training example by a network that was not trained on it, at little cost.

Two networks, each trained on one half by plain cross-entropy for a fraction of the epochs: of each
the epoch is kept at which it knew the other half best, before it learnt the noise by heart.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from lightning_fabric import Fabric
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.data.folders import written_whole
from noisebound.estimation.labels import FEWEST_EXAMPLES
from noisebound.training.config import TrainingConfig
from noisebound.training.display import Display
from noisebound.training.evaluation import predict_logits
from noisebound.training.initial_state import initial_state
from noisebound.training.loop import Training, TrainingData
from noisebound.training.objective import make_objective

_FEWEST_EPOCHS = 12
_USUAL_PART = 1 / 4
_LARGEST_PART = 3 / 8  # with the evaluations, less than half of the training that it serves
_PATIENCE = 3
_HALVES = 2
_LOOKED_AT = 2_000


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What networks say of examples that they were not trained on.

    Args:
        logits: a row an example
        is_underfit: whether a network was still learning, and had learnt nothing by heart, when its
            epochs ended: then much of what it gets wrong is its own fault, and not the labels'
        positions: of the examples among those that were given to `fit`
    """

    logits: Float[Tensor, "n classes"]
    is_underfit: bool
    positions: Int64[Tensor, " n"]

    def save(self, path: Path, identity: str) -> None:
        """Whole or not at all."""
        about = {"identity": identity, "underfit": str(self.is_underfit)}
        with written_whole(path) as part:
            save_file({"logits": self.logits, "positions": self.positions}, part, metadata=about)

    @classmethod
    def read(cls, path: Path, identity: str | None = None) -> "HeldOut | None":
        """What was saved, if it is whole and of this run; of whichever, without an identity."""
        try:
            with safe_open(path, framework="pt") as stored:
                about = stored.metadata() or {}
                if identity not in (None, about.get("identity")):
                    return None
                logits, positions = (stored.get_tensor(name) for name in ("logits", "positions"))
                return cls(logits, about.get("underfit") == "True", positions)
        except (OSError, SafetensorError):  # absent or damaged: do it again
            return None


class CrossFit:
    """Held-out predictions, half after half; a half that is done is not done again.

    Args:
        data: the training examples
        config: of the training that this serves
        network: as it is before training; copies of it are trained
        fabric: launched
        folder: keeps the halves that are done; None to keep nothing
        identity: of the run; what another run has left is not used
        show: draw the loss as it falls, if someone is looking
    """

    def __init__(
        self,
        data: TrainingData,
        config: TrainingConfig,
        network: nn.Module,
        fabric: Fabric,
        *,
        folder: Path | None = None,
        identity: str = "",
        show: bool = True,
    ) -> None:
        if len(data.train) < FEWEST_EXAMPLES:
            raise ValueError(
                f"{len(data.train)} training examples are too few to estimate their noise, it "
                f"takes {FEWEST_EXAMPLES}: give the noise rate (--noise-rate)"
            )
        self.data, self.config, self.network = data, _plain(config), network
        self.fabric, self.folder, self.identity, self.show = fabric, folder, identity, show

    def held_out(self) -> HeldOut:
        """For every training example, on every rank."""
        return self._once("both", self._of_halves)

    def _of_halves(self) -> HeldOut:
        train, positions = self.data.train, self.data.positions
        first = stratified_indices(train.labels, len(train) // _HALVES, self.config.seed)
        is_first = torch.zeros(len(train), dtype=torch.bool).index_fill_(0, first, True)
        logits = torch.empty(len(train), train.num_classes)
        is_underfit = False
        for number, is_held_out in enumerate((is_first, ~is_first), start=1):
            title = f"measuring the noise {number}/{_HALVES}"
            half = self._once(f"half-{number}", partial(self._half, is_held_out, title))
            logits[is_held_out] = half.logits
            is_underfit |= half.is_underfit
        return HeldOut(
            logits, is_underfit, torch.arange(len(train)) if positions is None else positions
        )

    def _once(self, name: str, compute: Callable[[], HeldOut]) -> HeldOut:
        """What was computed before, or is now, and is kept for the next time."""
        path = self.folder / f"{name}.safetensors" if self.folder else None
        is_first_rank = self.fabric.is_global_zero
        found = HeldOut.read(path, self.identity) if path and is_first_rank else None
        found = self.fabric.broadcast(found)
        if found is None:
            found = compute()
            if path and is_first_rank:
                found.save(path, self.identity)
            self.fabric.barrier()
        return found

    def _half(self, is_held_out: Bool[Tensor, " n"], title: str) -> HeldOut:
        train, held_out = (
            replace(self.data.train.subset(chosen), true_labels=None)  # not to be looked at
            for chosen in (~is_held_out, is_held_out)
        )
        objective = make_objective(self.config, train.num_classes, len(train))
        network = copy.deepcopy(self.network)
        state = initial_state(network, objective, self.config, len(train), self.fabric)
        data = TrainingData(train, None, None, self.data.normalization)
        training = Training(state, objective, data, self.config, self.fabric)
        assert state.averaged is not None
        logits, loss, best, least = torch.empty(0), torch.inf, 0, torch.inf
        show = self.show and self.fabric.is_global_zero
        with Display(title, self.config.epochs, [], show) as display:
            for metrics in training.epochs():
                now = self._logits(state.averaged, held_out)
                loss = F.cross_entropy(now, held_out.labels).item()
                display.update(metrics | {"validation_loss": loss})
                if loss < least:
                    logits, least, best = now, loss, state.epoch
                elif state.epoch - best >= _PATIENCE:
                    break
        is_underfit = best == state.epoch and self._knows_nothing_by_heart(
            state.averaged, train, logits, held_out
        )
        return HeldOut(logits, is_underfit, is_held_out.nonzero().squeeze(1))

    def _knows_nothing_by_heart(
        self, model: nn.Module, train: Dataset, logits: Tensor, held_out: Dataset
    ) -> bool:
        """Whether it is no better on some of its own examples than on the others, but by chance."""
        some = train.subset(torch.arange(min(len(train), _LOOKED_AT)))
        own = F.cross_entropy(self._logits(model, some), some.labels, reduction="none")
        others = F.cross_entropy(logits, held_out.labels, reduction="none")
        error = (own.var() / len(own) + others.var() / len(others)).sqrt()
        return bool(others.mean() - own.mean() < 2 * error)

    def _logits(self, model: nn.Module, data: Dataset) -> Float[Tensor, "n classes"]:
        return predict_logits(model, data, self.data.normalization, self.fabric)


def cross_fit_epochs(epochs: int) -> int:
    """How long each half is trained: a quarter of the epochs, but not too few, and not too many.

    Example:
        >>> [cross_fit_epochs(epochs) for epochs in (1, 10, 30, 50, 100)]
        [1, 3, 11, 12, 25]
    """
    wanted = max(_FEWEST_EPOCHS, round(_USUAL_PART * epochs))
    return max(1, min(wanted, int(_LARGEST_PART * epochs)))


def _plain(config: TrainingConfig) -> TrainingConfig:
    """Plain cross-entropy, with little averaging, for a fraction of the epochs."""
    return config.model_copy(
        update={
            "loss": "ce",
            "noise_rate": None,
            "transition": None,
            "bound": None,
            "bound_classes": None,
            "bound_offset": 0.0,
            "granularity": "batch",
            "epochs": cross_fit_epochs(config.epochs),
            "average_epochs": 1.0,
        }
    )
