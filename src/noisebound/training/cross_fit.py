"""Predictions for every training example by a network that was not trained on it, at little cost.

Two networks, each trained on one half by plain cross-entropy for a fraction of the epochs: of each
the epoch is kept at which it knew the other half best, before it learnt the noise by heart.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.errors import InvalidValueError
from noisebound.estimation.labels import FEWEST_EXAMPLES
from noisebound.training.config import TrainingConfig
from noisebound.training.display import Display
from noisebound.training.evaluation import predict_logits
from noisebound.training.held_out import LOOKED_AT, BestEpoch, HeldOut
from noisebound.training.initial_state import initial_state
from noisebound.training.loop import Training, TrainingData
from noisebound.training.objective import make_objective

_FEWEST_EPOCHS = 12
_USUAL_PART = 1 / 4
_LARGEST_PART = 3 / 8  # with the evaluations, less than half of the training that it serves
_HALVES = 2


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
            raise InvalidValueError(
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
        best = BestEpoch(held_out.labels)
        show = self.show and self.fabric.is_global_zero
        with Display(title, self.config.epochs, [], show) as display:
            for metrics in training.epochs():
                loss = best.look(self._logits(state.averaged, held_out))
                display.update(metrics | {"validation_loss": loss})
                if best.is_past:
                    break
        some = train.subset(torch.arange(min(len(train), LOOKED_AT)))
        is_underfit = best.is_underfit(self._logits(state.averaged, some), some.labels)
        return HeldOut(best.logits, is_underfit, is_held_out.nonzero().squeeze(1))

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
