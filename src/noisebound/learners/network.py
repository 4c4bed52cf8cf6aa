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
from noisebound.training.evaluation import EvaluationSet
from noisebound.training.loop import Training
from noisebound.training.objective import Objective
from noisebound.training.state import initial_state

_GROWTH = 1.25  # ratio of two epochs that are judged; heuristic
_MORE_EPOCHS = 5  # so that an early peak by chance does not end a trial; heuristic
_TIMED_EXAMPLES = 512


class Network:
    """Trains copies of a network by one objective.

    After ``fewest_epochs``, if they are given, training stops 5 epochs past twice the best epoch.
    """

    name: LearnerName = "network"

    def __init__(
        self,
        network: nn.Module,
        config: TrainingConfig,
        objective: Objective,
        devices: Devices,
        *,
        fewest_epochs: int | None = None,
    ) -> None:
        self.network, self.config, self.objective = network, config, objective
        self.devices, self.fewest_epochs = devices, fewest_epochs
        self.stages = judged_epochs(config.epochs)

    def seconds(self, data: TrainingData) -> float:
        """Estimate how long a training takes, by the second epoch on a few examples."""
        few = data.subset(torch.arange(min(_TIMED_EXAMPLES, len(data.train))))
        config = self.config.model_copy(update={"epochs": 2, "measure_every": 2})
        training = self._training(few, config)
        epoch = list(training.epochs())[-1]
        return epoch.seconds / len(few.train) * len(data.train) * self.config.epochs

    def _training(self, data: TrainingData, config: TrainingConfig) -> Training:
        """Return a training of a copy of the network, which sees no labels but those to learn."""
        train = replace(data.train, true_labels=None)
        blind = replace(data, train=train, validation=None, test=None)
        network = copy.deepcopy(self.network)
        objective = replace(self.objective, criterion=copy.deepcopy(self.objective.criterion))
        state = initial_state(network, objective, config, len(train), self.devices)
        return Training(state, objective, blind, config, self.devices)

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Train on the training split, and predict other examples after some of the epochs.

        The labels of the first of the others decide when to stop. The predictions of epochs that
        are left out are those of the last one.
        """
        config = self.config.model_copy(update={"measure_every": self.config.epochs, "seed": seed})
        training = self._training(data, config)
        fewest = config.epochs if self.fewest_epochs is None else self.fewest_epochs
        judged = [EvaluationSet(other, data.normalization, self.devices) for other in others]
        found: list[list[torch.Tensor]] = [[] for _ in others]
        agreement: list[float] = []
        for metrics in training.epochs():
            if metrics.epoch not in self.stages:
                continue
            for other, stages in zip(judged, found, strict=True):
                stages.append(other.logits(training.state.best_model).float().softmax(1))
            hits = found[0][-1].argmax(1) == others[0].labels
            agreement.append(hits.double().mean().item())
            best = self.stages[max(range(len(agreement)), key=agreement.__getitem__)]
            if metrics.epoch >= max(fewest, 2 * best + _MORE_EPOCHS):
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
