"""The best recipes of the trials on a part are trained on all examples, and watched once more.

The more examples there are, the sooner a network has learned what they have in common, and the
sooner it memorizes; and with more examples of each class another recipe may be the better one. So
where recipes were tried on some thousands of many examples, the epochs that the trials have found
do not hold for the whole, and two recipes that were abreast are told apart by all examples.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.training.choose import Evidence
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import once
from noisebound.training.data import TrainingData
from noisebound.training.keeper import Keeper
from noisebound.training.objective import Objective
from noisebound.training.trial import Trial

_LEFT_OUT_SHARE = 0.1  # of the examples, where there is no validation: a choice


@dataclass(frozen=True, eq=False)
class Finalist:
    """A recipe that is ready to be trained on all examples.

    Args:
        evidence: what the trials on a part of the examples say of it
        data: the examples as it uses them
        config: how it trains, for as many epochs as there may be
        make_objective: makes its objective for so many training examples
    """

    evidence: Evidence
    data: TrainingData
    config: TrainingConfig
    make_objective: Callable[[int], Objective]


class Finals:
    """Trainings on all examples, each watched by labels that it does not see.

    Args:
        whole: the examples as they are
        finalists: the recipes
        network: the network before training, of which copies are trained
        fabric: launched
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        whole: TrainingData,
        finalists: Sequence[Finalist],
        network: nn.Module,
        fabric: Fabric,
        *,
        show: bool,
    ) -> None:
        self.whole, self.finalists = whole, finalists
        self.network, self.fabric, self.show = network, fabric, show
        self.trial: Trial | None = None

    def hits(self, keeper: Keeper) -> list[Bool[Tensor, "epochs n"]]:
        """Return, for each finalist, which of the watching labels it predicts after each epoch.

        Args:
            keeper: keeps the trainings that are done
        """
        return [self._watched(finalist, keeper) for finalist in self.finalists]

    def _watched(self, finalist: Finalist, keeper: Keeper) -> Bool[Tensor, "epochs n"]:
        config, evidence = finalist.config, finalist.evidence
        data, left_out = _left_out(self.whole, finalist.data, config.seed)
        self.trial = Trial(
            data,
            left_out,
            config,
            finalist.make_objective(len(data.train)),
            copy.deepcopy(self.network),
            self.fabric,
            stops="well past the most hits" if evidence.stops_early else "never",
            title=f"all examples: {evidence.recipe}",
            show=self.show,
        )
        run = partial(self.trial.run, torch.arange(len(left_out)))
        found = once(f"final-{evidence.recipe}", run, keeper, self.fabric)
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
    count = round(_LEFT_OUT_SHARE * len(whole.train))
    chosen = stratified_indices(whole.train.labels, count, seed)
    is_kept = ~torch.isin(prepared.positions, whole.positions[chosen])
    train, positions = prepared.train.subset(is_kept), prepared.positions[is_kept]
    checked = None if prepared.checked is None else prepared.checked.subset(is_kept)
    data = replace(prepared, train=train, positions=positions, checked=checked)
    return data, whole.train.subset(chosen)
