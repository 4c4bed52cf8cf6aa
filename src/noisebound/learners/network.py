"""A network as a learner: its stages are epochs."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from noisebound.data import Dataset
from noisebound.learners.learner import Staged
from noisebound.training.config import LearnerName, TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import Devices
from noisebound.training.evaluation import Examples
from noisebound.training.loop import Training
from noisebound.training.objective import Objective
from noisebound.training.state import initial_state

_GROWTH = 1.25  # ratio of two epochs that are judged; heuristic
_MORE_EPOCHS = 5  # so that an early peak by chance does not end a trial; heuristic


class Network:
    """A network that is trained by one objective.

    Args:
        network: the network before training, of which a copy is trained
        config: how to train
        objective: the loss and its bound
        devices: the devices and the ranks
        stops: True to stop 5 epochs past twice the best epoch so far
    """

    name: LearnerName = "network"

    def __init__(
        self,
        network: nn.Module,
        config: TrainingConfig,
        objective: Objective,
        devices: Devices,
        *,
        stops: bool,
    ) -> None:
        self.network, self.config, self.objective = network, config, objective
        self.devices, self.stops = devices, stops
        self.stages = judged_epochs(config.epochs)

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Train on the training split, and predict other examples after some of the epochs.

        The labels of the first of the others decide when to stop. The predictions of epochs that
        are left out are those of the last one.
        """
        config = self.config.model_copy(update={"measure_every": self.config.epochs, "seed": seed})
        blind = replace(
            data, train=replace(data.train, true_labels=None), validation=None, test=None
        )
        network = copy.deepcopy(self.network)
        objective = replace(self.objective, criterion=copy.deepcopy(self.objective.criterion))
        state = initial_state(network, objective, config, len(data.train), self.devices)
        judged = [Examples(other, data.normalization, self.devices) for other in others]
        found: list[list[torch.Tensor]] = [[] for _ in others]
        agreement: list[float] = []
        for metrics in Training(state, objective, blind, config, self.devices).epochs():
            if metrics.epoch not in self.stages:
                continue
            for other, stages in zip(judged, found, strict=True):
                stages.append(other.logits(state.best_model).float().softmax(1))
            hits = found[0][-1].argmax(1) == others[0].labels
            agreement.append(hits.double().mean().item())
            best = self.stages[max(range(len(agreement)), key=agreement.__getitem__)]
            if self.stops and metrics.epoch >= 2 * best + _MORE_EPOCHS:
                break
        missing = len(self.stages) - len(agreement)
        return [torch.stack(stages + stages[-1:] * missing) for stages in found]


def judged_epochs(epochs: int) -> tuple[int, ...]:
    """Return the epochs after which a network is judged, the last one included.

    Example:
        >>> judged_epochs(20)
        (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 20)
    """
    found = [1]
    while found[-1] < epochs:
        found.append(min(epochs, max(found[-1] + 1, round(_GROWTH * found[-1]))))
    return tuple(found)
