"""The one cross-fitter: predictions for every example by a network that was not trained on it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Int64
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold, UnknownNoise
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.keeper import NOTHING_KEPT, Keeper
from noisebound.training.objective import make_objective
from noisebound.training.ranks import first_rank_does
from noisebound.training.state import TrainingState
from noisebound.training.trial import Trial

FEWEST_EXAMPLES = 50
"""The fewest examples that noise is estimated from: what is left of sixty if validation takes its
share. The surest fifth is then 10, and a rate that 10 examples show has a standard error of up to
0.16: of fewer the noise could be anything."""

_USUAL_PART = 1 / 4
_FEWEST_EPOCHS = 12
_LARGEST_PART = 3 / 8
"""A network trains for a quarter of the epochs, but for at least 12, which is a choice, and for at
most three eighths: two halves and their evaluation then cost about half of the training that they
serve (0.48 to 0.50 in the worst case, `benchmarks/estimating.py`)."""


@dataclass(frozen=True, eq=False)
class CrossFitPlan:
    """How a cross-fit is done.

    Args:
        folds: the positions of each fold; together they hold every example once
        config: how each network is trained
        keeps_best_epoch: True to keep the epoch that predicts the fold best, and to stop soon after
            it; False to keep the last epoch
        title: what to call it while it runs
        name: distinguishes what is kept of it from other cross-fits of the same run
    """

    folds: Sequence[Int64[Tensor, " _"]]
    config: TrainingConfig
    keeps_best_epoch: bool = True
    title: str = "estimating the noise"
    name: str = ""


class CrossFit:
    """Out-of-fold predictions, fold after fold; a fold that is done is not done again.

    Args:
        data: the training examples
        plan: the folds, and how networks are trained on the rest
        network: the network before training; copies of it are trained
        fabric: launched
        keeper: keeps the folds that are done
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        data: TrainingData,
        plan: CrossFitPlan,
        network: nn.Module,
        fabric: Fabric,
        *,
        keeper: Keeper = NOTHING_KEPT,
        show: bool = True,
    ) -> None:
        self.data, self.plan, self.network = data, plan, network
        self.fabric, self.keeper, self.show = fabric, keeper, show
        self.state: TrainingState | None = None

    def out_of_fold(self) -> OutOfFold:
        """Return the predictions for every training example, on every rank."""
        return self._once("all", self._of_all_folds)

    def _of_all_folds(self) -> OutOfFold:
        train, folds = self.data.train, self.plan.folds
        found = [
            self._once(f"fold-{number}", partial(self._fold, number, fold))
            for number, fold in enumerate(folds, start=1)
        ]
        positions = self.data.positions
        return replace(
            OutOfFold.joined(found),
            positions=torch.arange(len(train)) if positions is None else positions,
            is_trusted=None if self.data.checked is None else self.data.checked.is_trusted,
        )

    def _once(self, name: str, compute: Callable[[], OutOfFold]) -> OutOfFold:
        full_name = f"{self.plan.name}-{name}" if self.plan.name else name
        return once(full_name, compute, self.keeper, self.fabric)

    def _fold(self, number: int, fold: Int64[Tensor, " m"]) -> OutOfFold:
        """Train on all examples but a fold, and predict the fold."""
        config, whole = self.plan.config, self.data.train
        is_trained_on = torch.ones(len(whole), dtype=torch.bool)
        is_trained_on[fold] = False
        train = whole.subset(is_trained_on)
        unknown = UnknownNoise(whole.num_classes)
        trial = Trial(
            replace(self.data, train=train, positions=None, checked=None),
            whole.subset(fold),
            config,
            make_objective(config, whole.num_classes, len(train), unknown),
            copy.deepcopy(self.network),
            self.fabric,
            stops="past the least loss" if self.plan.keeps_best_epoch else "never",
            title=f"{self.plan.title} {number}/{len(self.plan.folds)}",
            show=self.show,
        )
        self.state = trial.state
        return trial.run(fold, keeps_best_epoch=self.plan.keeps_best_epoch)


def once(name: str, compute: Callable[[], OutOfFold], keeper: Keeper, fabric: Fabric) -> OutOfFold:
    """Return what was computed before; else compute it, and keep it for the next time.

    Args:
        name: what it is kept under
        compute: called on every rank, unless the predictions are kept already
        keeper: keeps predictions on the first rank
        fabric: launched
    """
    found = keeper.read_out_of_fold(name) if fabric.is_global_zero else None
    found = fabric.broadcast(found)
    if found is None:
        found = compute()
        first_rank_does(fabric, partial(keeper.keep_out_of_fold, name, found))
    return found


def noise_plan(data: TrainingData, config: TrainingConfig) -> CrossFitPlan:
    """Return the plan to estimate the noise by: two halves, plain cross-entropy, few epochs."""
    plain = plain_config(config).model_copy(
        update={
            "epochs": config.cross_fit_epochs or cross_fit_epochs(config.epochs),
            "average_epochs": 1.0,  # the best epoch is sought, and must not lag behind
        }
    )
    return CrossFitPlan(half_folds(data.train.labels, config.seed), plain)


def half_folds(
    labels: Int64[Tensor, " n"], seed: int
) -> tuple[Int64[Tensor, " first"], Int64[Tensor, " second"]]:
    """Return the positions of two halves, each with its share of every class."""
    first = stratified_indices(labels, len(labels) // 2, seed)
    is_first = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, first, True)
    return first, (~is_first).nonzero().squeeze(1)


def cross_fit_epochs(epochs: int) -> int:
    """Return how long a network that estimates the noise trains at most.

    Example:
        >>> [cross_fit_epochs(epochs) for epochs in (1, 10, 30, 50, 100)]
        [1, 3, 11, 12, 25]
    """
    wanted = max(_FEWEST_EPOCHS, round(_USUAL_PART * epochs))
    return max(1, min(wanted, int(_LARGEST_PART * epochs)))


def plain_config(config: TrainingConfig) -> TrainingConfig:
    """Return the same training by plain cross-entropy, told nothing of the noise."""
    return config.model_copy(
        update={
            "loss": "ce",
            "recipe": None,
            "noise_rate": None,
            "transition": None,
            "bound": None,
            "bound_classes": None,
            "bound_offset": 0.0,
            "class_weight": None,
        }
    )
