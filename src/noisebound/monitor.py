"""Detect when a training loss falls below its floor, without changing the training."""

import warnings
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from noisebound.checks import best_precision, check_mean_loss, check_number
from noisebound.errors import MisuseError


class MemorizationWarning(UserWarning):
    """The training loss is below the floor, the least mean loss of an honest model."""


def memorizing_since(losses: Sequence[float], floor: float) -> int | None:
    """Return the epoch from which on every mean loss was below the floor, or None.

    Args:
        losses: the mean training loss of each epoch; epochs are counted from 1.
        floor: the least mean loss of an honest model.

    Example:
        >>> memorizing_since([2.0, 1.4, 1.6, 1.5, 1.2], floor=1.55)
        4
    """
    above = [epoch for epoch, loss in enumerate(losses, start=1) if not loss < floor]
    first = above[-1] + 1 if above else 1
    return first if first <= len(losses) else None


class MemorizationMonitor:
    """Warns, in any training loop, when the model begins to memorize wrong labels.

    Observing a loss does not wait for the device. The mean loss of an epoch is over all ranks.

    Args:
        floor: the least mean loss of an honest model, from :func:`noise_bound` for a given noise
            rate, or from :func:`measured_floor`.

    Example:
        >>> monitor = MemorizationMonitor(floor=1.55)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     for mean in (1.9, 1.6, 1.5, 1.4):
        ...         monitor.observe(mean, count=300)
        ...         monitor.end_epoch()
        >>> print(caught[0].message)
        memorizing since epoch 3: the mean training loss 1.500 is below the floor 1.550
        >>> len(caught), monitor.memorizing_since
        (1, 3)
    """

    def __init__(self, floor: float) -> None:
        self.floor = check_number("floor", floor)
        self.epoch_losses: list[float] = []
        self._parts: list[Tensor] = []

    @property
    def memorizing_since(self) -> int | None:
        """The epoch from which on every mean loss was below the floor; None if the last was not."""
        return memorizing_since(self.epoch_losses, self.floor)

    def observe(self, loss: float | Tensor, count: int = 1) -> None:
        """Add the mean loss of a batch of ``count`` examples to the current epoch."""
        mean = torch.as_tensor(loss).detach()
        check_mean_loss(mean)
        mean = mean.to(best_precision(mean.device))
        self._parts.append(torch.stack([mean * count, torch.full_like(mean, count)]))

    @property
    def has_observed(self) -> bool:
        """True if a loss was observed since the last epoch ended."""
        return bool(self._parts)

    def forget(self) -> None:
        """Drop the losses of the current epoch."""
        self._parts.clear()

    def end_epoch(self) -> None:
        """Compare the mean loss of the epoch with the floor, and warn if memorizing began."""
        if not self.has_observed:
            raise MisuseError("the epoch has ended without a loss: call observe after each batch")
        totals = torch.stack(self._parts).sum(0)
        self.forget()
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(totals)
        was_memorizing = self.memorizing_since is not None
        self.epoch_losses.append((totals[0] / totals[1]).item())
        if self.memorizing_since is not None and not was_memorizing:
            warnings.warn(
                f"memorizing since epoch {self.memorizing_since}: the mean training loss "
                f"{self.epoch_losses[-1]:.3f} is below the floor {self.floor:.3f}",
                MemorizationWarning,
                stacklevel=2,
            )
