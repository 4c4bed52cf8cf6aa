"""How many epochs a recipe takes on all examples, where it was tried on some thousands of them.

The more examples there are, the sooner a network has learned what they have in common, and the
sooner it memorizes. So the epochs that trials on a part have found do not hold for the whole.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from lightning_fabric import Fabric
from torch import nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.training.best_epoch import soonest_agreeing
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import once
from noisebound.training.data import TrainingData
from noisebound.training.keeper import Keeper
from noisebound.training.objective import Objective
from noisebound.training.trial import Trial

_LEFT_OUT_SHARE = 0.1  # of the examples, where there is no validation: a choice


class EpochSearch:
    """A training that is watched by labels it does not see, to learn when to stop it.

    Args:
        whole: the examples as they are
        prepared: the examples as the recipe uses them
        config: how to train, for as many epochs as there may be
        make_objective: makes the objective for so many training examples
        network: the network before training, of which a copy is trained
        fabric: launched
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        whole: TrainingData,
        prepared: TrainingData,
        config: TrainingConfig,
        make_objective: Callable[[int], Objective],
        network: nn.Module,
        fabric: Fabric,
        *,
        show: bool,
    ) -> None:
        data, self.left_out = _left_out(whole, prepared, config.seed)
        self.fabric = fabric
        self.trial = Trial(
            data,
            self.left_out,
            config,
            make_objective(len(data.train)),
            copy.deepcopy(network),
            fabric,
            stops="well past the most hits",
            title="when to stop",
            show=show,
        )

    def epochs(self, keeper: Keeper) -> int:
        """Return the number of epochs after which the left-out labels are predicted best."""
        positions = torch.arange(len(self.left_out))
        found = once("stop", partial(self.trial.run, positions), keeper, self.fabric)
        assert found.hits is not None
        return soonest_agreeing(found.hits)


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
