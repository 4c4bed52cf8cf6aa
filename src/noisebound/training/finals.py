"""What a recipe does on all examples, before it trains: finals, or a rehearsal.

The more examples there are, the sooner a network has learned what they have in common, and the
sooner it memorizes; and with more examples of each class another recipe may be the better one. So
where recipes were tried on some thousands of many examples, the epochs that the trials have found
do not hold for the whole, and two recipes that were abreast are told apart by all examples. Where
they were tried on all, in halves, the chosen one is rehearsed: a network that knows the labels it
was trained on worse than its trials knew others has not learned what they had learned.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Int64
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import once
from noisebound.training.data import TrainingData
from noisebound.training.evidence import Evidence
from noisebound.training.keeper import Keeper
from noisebound.training.objective import Objective
from noisebound.training.trial import Stop, Trial

_LEFT_OUT_SHARE = 0.1  # of the examples, where there is no validation: a choice


@dataclass(frozen=True, eq=False)
class Finalist:
    """A recipe that is ready to be trained on all examples.

    Args:
        evidence: what the trials on a part of the examples say of it
        data: the examples as it uses them
        config: how it trains, for as many epochs as there may be
        network: the network before training, of which a copy is trained
        make_objective: makes its objective for these examples, or for some of them
    """

    evidence: Evidence
    data: TrainingData
    config: TrainingConfig
    network: nn.Module
    make_objective: Callable[[TrainingData], Objective]


class Finals:
    """Trainings on all examples, each watched by labels that it does not see.

    Args:
        whole: the examples as they are
        finalists: the recipes
        fabric: launched
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        whole: TrainingData,
        finalists: Sequence[Finalist],
        fabric: Fabric,
        *,
        show: bool,
    ) -> None:
        self.whole, self.finalists = whole, finalists
        self.fabric, self.show = fabric, show
        self.trial: Trial | None = None

    def hits(self, keeper: Keeper) -> list[Bool[Tensor, "epochs n"]]:
        """Return, for each finalist, which of the watching labels it predicts after each epoch.

        Args:
            keeper: keeps the trainings that are done
        """
        return [self._watched(finalist, keeper) for finalist in self.finalists]

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        """The labels that watch."""
        if self.whole.validation is not None:
            return self.whole.validation.labels
        return self.whole.train.labels[_watching(self.whole, self.finalists[0].config.seed)]

    def rehearsal(self, keeper: Keeper) -> Bool[Tensor, " n"]:
        """Return which labels of all examples the first finalist predicts, trained on all of them.

        Args:
            keeper: keeps the training if it is done
        """
        first = self.finalists[0]
        config = first.config.model_copy(update={"epochs": first.evidence.epochs})
        own = self.whole.train
        self.trial = self._trial(first, first.data, own, config, "never", "rehearsal")
        run = partial(self.trial.run, torch.arange(len(own)), keeps_best_epoch=False)
        return _hits(once("rehearsal", run, keeper, self.fabric))[-1]

    def _watched(self, finalist: Finalist, keeper: Keeper) -> Bool[Tensor, "epochs n"]:
        data, left_out = _left_out(self.whole, finalist.data, finalist.config.seed)
        evidence = finalist.evidence
        stops: Stop = "well past the most hits" if evidence.stops_early else "never"
        title = f"all examples: {evidence.recipe}"
        self.trial = self._trial(finalist, data, left_out, finalist.config, stops, title)
        run = partial(self.trial.run, torch.arange(len(left_out)))
        return _hits(once(f"final-{evidence.recipe}", run, keeper, self.fabric))

    def _trial(
        self,
        finalist: Finalist,
        data: TrainingData,
        judged: Dataset,
        config: TrainingConfig,
        stops: Stop,
        title: str,
    ) -> Trial:
        return Trial(
            replace(data, validation=None),
            judged,
            config,
            finalist.make_objective(data),
            copy.deepcopy(finalist.network),
            self.fabric,
            stops=stops,
            title=title,
            show=self.show,
        )


def _hits(found: OutOfFold) -> Bool[Tensor, "epochs n"]:
    assert found.hits is not None
    return found.hits


def _left_out(
    whole: TrainingData, prepared: TrainingData, seed: int
) -> tuple[TrainingData, Dataset]:
    """Return examples to train on and others to watch by: validation, or a tenth of the whole."""
    if whole.validation is not None:
        return prepared, whole.validation
    assert whole.positions is not None
    assert prepared.positions is not None
    chosen = _watching(whole, seed)
    is_kept = ~torch.isin(prepared.positions, whole.positions[chosen])
    train, positions = prepared.train.subset(is_kept), prepared.positions[is_kept]
    checked = None if prepared.checked is None else prepared.checked.subset(is_kept)
    data = replace(prepared, train=train, positions=positions, checked=checked)
    return data, whole.train.subset(chosen)


def _watching(whole: TrainingData, seed: int) -> Int64[Tensor, " m"]:
    """Return the positions of the examples that watch where there is no validation."""
    count = round(_LEFT_OUT_SHARE * len(whole.train))
    return stratified_indices(whole.train.labels, count, seed)
