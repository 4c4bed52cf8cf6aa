"""A network in training: one weighted, bounded pass over the examples after another."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from noisebound.data.loader import derived_seed
from noisebound.errors import InvalidValueError
from noisebound.integrations.sklearn.examples import Examples, Scaling, dense
from noisebound.losses import Loss
from noisebound.training.averaging import averaged_copy

_PREDICTED_AT_ONCE = 2**24  # numbers


@dataclass(frozen=True)
class Pace:
    """How to learn.

    Args:
        batch_size: examples a step
        learning_rate: Adam's
        weight_decay: Adam's
        average_epochs: over about how many epochs the weights are averaged
        seed: decides the orders
    """

    batch_size: int
    learning_rate: float
    weight_decay: float
    average_epochs: float
    seed: int


class Learner:
    """A network, the average of its weights, and the loss that it learns by.

    Args:
        network: is trained in place
        criterion: the loss
        bound: that its mean shall not fall below; None for plain training
        pace: how to learn
        num_examples: in an epoch, about
    """

    def __init__(
        self,
        network: nn.Module,
        criterion: Loss,
        bound: float | None,
        pace: Pace,
        num_examples: int,
    ) -> None:
        self.network, self.criterion, self.bound, self.pace = network, criterion, bound, pace
        steps = -(-num_examples // pace.batch_size)
        self.averaged = averaged_copy(network, pace.average_epochs, steps)
        self.optimizer = torch.optim.Adam(
            network.parameters(), lr=pace.learning_rate, weight_decay=pace.weight_decay
        )
        self.epochs_done = 0

    def inform(self, criterion: Loss, bound: float | None, pace: Pace) -> None:
        """Go on by another loss, bound or pace."""
        self.criterion, self.bound, self.pace = criterion, bound, pace
        for group in self.optimizer.param_groups:
            group.update(lr=pace.learning_rate, weight_decay=pace.weight_decay)

    def epoch(self, examples: Examples) -> float:
        """Learn from every example once; their mean loss, before the bound."""
        generator = torch.Generator().manual_seed(derived_seed(self.pace.seed, self.epochs_done))
        order = torch.randperm(len(examples), generator=generator)
        total = torch.zeros((), dtype=torch.float64)
        for batch in order.tensor_split(-(-len(order) // self.pace.batch_size)):
            weights = examples.weights[batch]
            mean = self._mean(examples, batch, weights)
            self._step(mean)
            total += mean.detach() * weights.sum()
        self.epochs_done += 1
        loss = (total / examples.weights.sum()).item()
        if not torch.isfinite(total):
            raise InvalidValueError(
                f"the training loss is {loss} in epoch {self.epochs_done}: training has diverged; "
                "lower learning_rate, or scale the features"
            )
        return loss

    def _mean(
        self, examples: Examples, batch: Int64[Tensor, " m"], weights: Float[Tensor, " m"]
    ) -> Float[Tensor, ""]:
        logits = self.network(examples.inputs(batch))
        losses, of_classes = self.criterion.weighted_losses(logits, examples.labels[batch])
        counted = weights if of_classes is None else weights * of_classes
        return losses @ weights / counted.sum()

    def _step(self, mean: Float[Tensor, ""]) -> None:
        self.optimizer.zero_grad()
        objective = mean if self.bound is None else (mean - self.bound).abs()
        objective.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.averaged.update_parameters(self.network)

    def logits(self, rows: Any, scaling: Scaling) -> Float[Tensor, "n classes"]:
        """What the averaged network says of rows."""
        return predicted_logits(self.averaged.module, rows, scaling)


def predicted_logits(network: nn.Module, rows: Any, scaling: Scaling) -> Float[Tensor, "n classes"]:
    """A part at a time, so that sparse rows never are all dense at once."""
    length, width = rows.shape
    size = max(1, _PREDICTED_AT_ONCE // width)
    parts = (rows[start : start + size] for start in range(0, length, size))
    with torch.no_grad():
        return torch.cat([network(dense(part, scaling)) for part in parts])
