"""A trial: a network is trained on some examples and predicts others after each epoch."""

from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Int64
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold
from noisebound.training.best_epoch import OWN_EXAMPLES, BestEpoch, most_agreeing
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.display import Display
from noisebound.training.evaluation import predict_logits
from noisebound.training.loop import Training
from noisebound.training.objective import Objective
from noisebound.training.state import TrainingState, initial_state

Stop: TypeAlias = Literal["never", "past the least loss", "well past the most hits"]
"""When a trial ends before its last epoch: never; some epochs after the one with the least loss on
the labels left out; or at twice the epoch that predicts most of them, and some more."""

_MORE_EPOCHS = 5  # so that an early peak by chance does not end a trial: a choice


class Trial:
    """A network that is trained on some examples, and its predictions for others.

    Args:
        data: the examples to train on, with the normalization of all inputs; its validation split,
            if there is one, is predicted at the best epoch
        left_out: the examples to predict, which the network is not trained on
        config: how to train
        objective: the loss and its bound
        network: the network before training, which is trained in place
        fabric: launched
        stops: when to end before the last epoch
        title: what to call it while it runs
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        data: TrainingData,
        left_out: Dataset,
        config: TrainingConfig,
        objective: Objective,
        network: nn.Module,
        fabric: Fabric,
        *,
        stops: Stop,
        title: str,
        show: bool,
    ) -> None:
        self.data, self.config, self.objective = data, config, objective
        self.left_out = replace(left_out, true_labels=None)  # must not be looked at
        self.fabric, self.stops, self.title = fabric, stops, title
        self.show = show and fabric.is_global_zero
        self.state: TrainingState = initial_state(
            network, objective, config, len(data.train), fabric
        )

    def run(self, positions: Int64[Tensor, " m"], *, keeps_best_epoch: bool = True) -> OutOfFold:
        """Train, and return the predictions for the examples that were left out.

        Args:
            positions: the positions of those examples among all
            keeps_best_epoch: True to predict by the epoch with the least loss on them, False to
                predict by the last epoch
        """
        blind = replace(
            self.data,
            train=replace(self.data.train, true_labels=None),
            validation=None,
            test=None,
        )
        training = Training(self.state, self.objective, blind, self.config, self.fabric)
        best, hits = BestEpoch(self.left_out.labels), []
        validation: OutOfFold | None = None
        with Display(self.title, self.config.epochs, [], self.show) as display:
            for metrics in training.epochs():
                if keeps_best_epoch or metrics.epoch == self.config.epochs:
                    logits = self._predict(self.left_out)
                    hits.append(logits.argmax(1) == self.left_out.labels)
                    metrics = replace(metrics, validation_loss=best.look(logits))
                    validation = self._predict_validation() if best.is_newest else validation
                display.update(metrics)
                if self._is_over(best, hits):
                    break
        own = _some(blind.train, self.config.seed)
        is_underfit = best.is_underfit(self._predict(own), own.labels)
        return OutOfFold(
            best.logits,
            self.left_out.labels,
            positions,
            is_underfit,
            torch.stack(hits),
            validation=validation,
        )

    def _is_over(self, best: BestEpoch, hits: list[Bool[Tensor, " m"]]) -> bool:
        match self.stops:
            case "never":
                return False
            case "past the least loss":
                return best.is_past
            case "well past the most hits":
                agreement = torch.stack(hits).double().mean(1)
                return len(hits) >= 2 * most_agreeing(agreement) + _MORE_EPOCHS

    def _predict_validation(self) -> OutOfFold | None:
        examples, positions = self.data.validation, self.data.validation_positions
        if examples is None or positions is None:
            return None
        return OutOfFold(self._predict(examples), examples.labels, positions)

    def _predict(self, examples: Dataset) -> Tensor:
        return predict_logits(self.state.best_model, examples, self.data.normalization, self.fabric)


def _some(examples: Dataset, seed: int) -> Dataset:
    """Return some thousands of the examples with their shares of each class, whatever the order."""
    if len(examples) <= OWN_EXAMPLES:
        return examples
    return examples.subset(stratified_indices(examples.labels, OWN_EXAMPLES, seed))
