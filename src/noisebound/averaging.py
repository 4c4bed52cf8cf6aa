"""Averaged weights, which remove the jitter of training at a bound."""

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

_Tensors: TypeAlias = tuple[Tensor, ...] | list[Tensor]


def averaged_copy(model: nn.Module, average_epochs: float, steps_per_epoch: int) -> AveragedModel:
    """Return an exponential average of a model's weights over about so many epochs.

    Batch norm's running statistics are averaged as the weights are.
    """
    decay = 1 - 1 / max(1.0, average_epochs * steps_per_epoch)
    return AveragedModel(model, multi_avg_fn=_ExponentialAverage(decay), use_buffers=True)


@dataclass(frozen=True)
class _ExponentialAverage:
    """The average of torch, as an object that can be pickled, which torch's closure cannot."""

    decay: float

    def __call__(self, averaged: _Tensors, current: _Tensors, count: Tensor | int) -> None:
        get_ema_multi_avg_fn(self.decay)(averaged, current, count)  # type: ignore[no-untyped-call]
