"""The one cross-fitter: predictions for every example by a network that was not trained on it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold, UnknownNoise
from noisebound.search.trial import Trial
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.objective import make_objective
from noisebound.training.session import Session

FEWEST_EXAMPLES = 50
"""The fewest examples that noise is estimated from: what is left of sixty if validation takes its
share. The surest fifth is then 10 examples, and the standard error of their rate up to 0.16."""

_USUAL_PART = 1 / 4
_FEWEST_EPOCHS = 12  # heuristic
_LARGEST_PART = 3 / 8
"""A network trains for a quarter of the epochs, but for at least 12 and at most three eighths. Two
halves and their evaluation then cost about half of the training that they serve (0.48 to 0.50 in
the worst case, `benchmarks/estimating.py`)."""


@dataclass(frozen=True, eq=False)
class CrossFitPlan:
    """How a cross-fit is done.

    Args:
        folds: the positions of each fold; together they hold every example once
        config: how each network is trained
        title: its name in the progress display
        name: distinguishes its results from those of other cross-fits of the same run
    """

    folds: Sequence[Int64[Tensor, " _"]]
    config: TrainingConfig
    title: str = "estimating the noise"
    name: str = ""


def cross_fit(
    data: TrainingData, plan: CrossFitPlan, network: nn.Module, session: Session
) -> OutOfFold:
    """Return out-of-fold predictions for every training example, on every rank.

    A fold that is done is not done again.

    Args:
        data: the training examples; a validation split is predicted too
        plan: the folds, and how networks are trained on the rest
        network: the network before training; copies of it are trained
        session: keeps the folds that are done
    """
    prefix = f"{plan.name}-" if plan.name else ""

    def all_folds() -> OutOfFold:
        found = [
            session.kept_or_computed(
                f"{prefix}fold-{number}",
                partial(_predict_fold, data, plan, number, fold, network, session),
            )
            for number, fold in enumerate(plan.folds, start=1)
        ]
        positions = data.positions
        return replace(
            OutOfFold.joined(found),
            positions=torch.arange(len(data.train)) if positions is None else positions,
            is_trusted=None if data.checked is None else data.checked.is_trusted,
        )

    return session.kept_or_computed(f"{prefix}all", all_folds)


def _predict_fold(
    data: TrainingData,
    plan: CrossFitPlan,
    number: int,
    fold: Int64[Tensor, " m"],
    network: nn.Module,
    session: Session,
) -> OutOfFold:
    """Train on all examples but a fold, and predict the fold."""
    whole = data.train
    is_trained_on = torch.ones(len(whole), dtype=torch.bool)
    is_trained_on[fold] = False
    train = whole.subset(is_trained_on)
    unknown = UnknownNoise(whole.num_classes)
    trial = Trial(
        replace(data, train=train, positions=None, checked=None),
        whole.subset(fold),
        plan.config,
        make_objective(plan.config, whole.num_classes, len(train), unknown),
        copy.deepcopy(network),
        session,
        stops="past the least loss",
        title=f"{plan.title} {number}/{len(plan.folds)}",
    )
    return trial.run(fold)


def noise_plan(data: TrainingData, config: TrainingConfig, name: str = "") -> CrossFitPlan:
    """Return the plan to estimate the noise by: two halves, plain cross-entropy, few epochs."""
    plain = plain_config(config).model_copy(
        update={
            "epochs": config.cross_fit_epochs or cross_fit_epochs(config.epochs),
            "average_epochs": 1.0,  # a longer average would lag behind the best epoch
        }
    )
    return CrossFitPlan(half_folds(data.train.labels, config.seed), plain, name=name)


def half_folds(
    labels: Int64[Tensor, " n"], seed: int
) -> tuple[Int64[Tensor, " first"], Int64[Tensor, " second"]]:
    """Return the positions of two halves, each with its share of every class."""
    first = stratified_indices(labels, len(labels) // 2, seed)
    is_first = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, first, True)
    return first, (~is_first).nonzero().squeeze(1)


def cross_fit_epochs(epochs: int) -> int:
    """Return the most epochs of a network that estimates the noise.

    Example:
        >>> [cross_fit_epochs(epochs) for epochs in (1, 10, 30, 50, 100)]
        [1, 3, 11, 12, 25]
    """
    wanted = max(_FEWEST_EPOCHS, round(_USUAL_PART * epochs))
    return max(1, min(wanted, int(_LARGEST_PART * epochs)))


def plain_config(config: TrainingConfig) -> TrainingConfig:
    """Return the config of the same training by plain cross-entropy, without given noise."""
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
