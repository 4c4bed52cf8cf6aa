"""The record of an epoch in progress: its losses, its examples, and whether training diverged."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.data import Batch
from noisebound.errors import InvalidValueError
from noisebound.training.devices import Devices, sum_over_ranks
from noisebound.training.state import FiniteCheck


class EpochRecord:
    """The losses and examples of an epoch so far. Recording never waits for the device.

    Args:
        number: the number of the epoch, from 1
        devices: the ranks that share the epoch
    """

    def __init__(self, number: int, devices: Devices) -> None:
        self._number, self._devices = number, devices
        self._means: list[Float[Tensor, ""]] = []
        self._weights: list[float | Tensor] = []
        self._visited: list[Tensor] = []
        self._largest_logits: list[Tensor] = []  # of each example

    def add(self, part: Batch, logits: Tensor, mean: Float[Tensor, ""]) -> None:
        """Record the mean loss and the logits of a batch, or of a part of one."""
        self._means.append(mean.detach())
        self._weights.append(part.total)
        self._visited.append(part.indices)
        # The largest logit of each example shows NaN and infinity; a mask may hold -inf.
        self._largest_logits.append(logits.detach().amax(1).flatten())

    @property
    def visited(self) -> Tensor:
        """The positions of the examples that this rank trained on."""
        return torch.cat(self._visited)

    def mean_loss(self) -> float:
        """Return the mean training loss over all ranks, or an error if it is not finite."""
        means = torch.stack(self._means).double()
        weights = torch.tensor(self._weights).to(means)
        totals = torch.stack([means @ weights, weights.sum()])
        total, weight = sum_over_ranks(totals, self._devices).tolist()
        if not math.isfinite(total):
            raise self._diverged(f"the training loss is {total / weight}")
        mean: float = total / weight
        return mean

    def check_finite(self, weights: FiniteCheck) -> None:
        """Raise an error if logits or weights are not finite; some losses turn NaN into zero."""
        logits = torch.cat(self._largest_logits)
        lost = sum_over_ranks((~logits.isfinite()).sum(), self._devices).item()
        if lost:
            raise self._diverged(f"the logits of {lost} examples are not finite")
        if not weights.passes():
            raise self._diverged("weights of the network are not finite")

    def _diverged(self, sign: str) -> InvalidValueError:
        return InvalidValueError(
            f"{sign} in epoch {self._number}: training has diverged; lower `learning_rate`, or "
            "scale the features"
        )
