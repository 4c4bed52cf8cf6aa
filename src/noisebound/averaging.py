"""Averaged weights, which remove the jitter of training at a bound.

At its bound, training goes downhill and uphill in turn. The average of the weights over some epochs
is a better model than the last ones.
"""

import math
from functools import partial
from itertools import chain
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from noisebound.errors import InvalidValueError

_Tensors: TypeAlias = tuple[Tensor, ...] | list[Tensor]


class AveragedWeights(AveragedModel):
    """A copy of a model whose weights are the exponential average of the model's over its steps.

    Call ``update_parameters(model)`` after every ``optimizer.step()``, and evaluate, save and
    predict with the copy. It is in evaluation mode. Batch norm's running statistics are averaged
    too, so that ``torch.optim.swa_utils.update_bn`` is not needed.

    Args:
        model: the model that is trained; under ``DistributedDataParallel`` the one that it wraps.
        steps: the number of steps that the average reaches back, at least 1. Use the steps of five
            epochs, or a tenth of all steps in a short training.

    Example:
        >>> import noisebound as nb
        >>> model = nn.Linear(1, 1, bias=False)
        >>> averaged = nb.AveragedWeights(model, steps=2)
        >>> for weight in (0.0, 1.0, 1.0):  # as a training would change it
        ...     _ = nn.init.constant_(model.weight, weight)
        ...     averaged.update_parameters(model)
        >>> averaged(torch.ones(1, 1)).item()
        0.75
    """

    def __init__(self, model: nn.Module, steps: float) -> None:
        if not 1 <= steps < math.inf:
            raise InvalidValueError(f"`steps` must be a number of at least 1, got {steps!r}")
        self.decay = 1 - 1 / steps
        average = partial(_average, decay=self.decay)
        super().__init__(model, multi_avg_fn=average, use_buffers=True)
        self.eval()

    @property
    def has_averaged(self) -> bool:
        """True after the first update."""
        return bool(self.n_averaged > 0)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the averaged weights and those of the model; a second call undoes the first."""
        for ours, theirs in zip(_tensors(self.module), _tensors(model), strict=True):
            last = theirs.clone()
            theirs.copy_(ours)
            ours.copy_(last)


def _tensors(model: nn.Module) -> chain[Tensor]:
    return chain(model.parameters(), model.buffers())


def _average(averaged: _Tensors, current: _Tensors, count: Tensor | int, *, decay: float) -> None:
    """Update by torch's closure, which cannot be pickled."""
    get_ema_multi_avg_fn(decay)(averaged, current, count)  # type: ignore[no-untyped-call]


class RunningAverage:
    """Updates averaged weights after each step, with the tensors looked up once.

    `AveragedWeights.update_parameters` gives the same bits, but walks both modules at every step,
    which costs a small network a tenth of its step. The model's tensors must not be replaced.
    """

    def __init__(self, averaged: AveragedWeights, model: nn.Module) -> None:
        self._averaged, self._model = averaged, model
        self._has_begun = False
        groups: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
        for mine, theirs in zip(_tensors(averaged.module), _tensors(model), strict=True):
            group = groups.setdefault((mine.device, mine.dtype), ([], []))
            group[0].append(mine.detach())
            group[1].append(theirs.detach())
        self._groups = list(groups.items())

    @torch.no_grad()
    def update(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            if not self._averaged.has_averaged:  # the average of one is that one
                self._averaged.update_parameters(self._model)
                return
        for (_, dtype), (kept, current) in self._groups:
            if dtype.is_floating_point:
                torch._foreach_lerp_(kept, current, 1 - self._averaged.decay)
            else:
                _average(kept, current, self._averaged.n_averaged, decay=self._averaged.decay)
        self._averaged.n_averaged.add_(1)
