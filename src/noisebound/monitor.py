"""Watching without intervening: since when a training loss has been below its floor."""

import warnings
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from noisebound.checks import check_finite_number
from noisebound.errors import InvalidValueError, MisuseError


class MemorizationWarning(UserWarning):
    """The training loss is below what an honest model can reach."""


def memorizing_since(losses: Sequence[float], floor: float) -> int | None:
    """The epoch, counted from 1, from which on every mean loss was below the floor.

    Example:
        >>> memorizing_since([2.0, 1.4, 1.6, 1.5, 1.2], floor=1.55)
        4
    """
    above = [epoch for epoch, loss in enumerate(losses, start=1) if not loss < floor]
    first = above[-1] + 1 if above else 1
    return first if first <= len(losses) else None


class MemorizationMonitor:
    """Tells, in anyone's loop, when a training begins to learn wrong labels by heart.

    It changes nothing. A loss is noted without waiting for the device, and over all ranks where
    there are several.

    Args:
        floor: what the mean loss of an honest model cannot fall below: `noise_bound` of a known
            noise rate, or `measured_floor`

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
        self.floor = check_finite_number("floor", floor)
        self.epoch_losses: list[float] = []
        self._parts: list[Tensor] = []

    @property
    def memorizing_since(self) -> int | None:
        """The first epoch of those below the floor, or None while the last is above it."""
        return memorizing_since(self.epoch_losses, self.floor)

    def observe(self, loss: float | Tensor, count: int = 1) -> None:
        """Take note of a batch: its mean loss, and of how many examples that is."""
        mean = torch.as_tensor(loss).detach()
        if mean.ndim:
            shape = tuple(mean.shape)
            raise InvalidValueError(
                f"observe takes the mean loss, one number, got a tensor of {shape}"
            )
        precision = torch.float32 if mean.device.type == "mps" else torch.float64
        mean = mean.to(precision)
        self._parts.append(torch.stack([mean * count, torch.full_like(mean, count)]))

    @property
    def has_observed(self) -> bool:
        """Whether there is a loss since the last epoch ended."""
        return bool(self._parts)

    def forget(self) -> None:
        """Drop what was observed of an epoch that is not finished."""
        self._parts.clear()

    def end_epoch(self) -> None:
        """Hold the mean since the last call against the floor; warn when it first lies below."""
        if not self.has_observed:
            raise MisuseError("an epoch has ended without a loss: call observe after each batch")
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
