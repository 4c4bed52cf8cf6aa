"""Shared by the callbacks of all trainers: a bound, its counts, and averaged weights."""

import math

from torch import nn

from noisebound.averaging import AveragedWeights
from noisebound.checks import check_number
from noisebound.step_bound import GradientBound

_LARGEST_SHARE = 0.1  # of a training: in a longer average the first weights would still count
_STEPS_OF_A_STREAM = 1000.0  # heuristic, if neither an epoch nor the training has a known length


class BoundedTraining(GradientBound):
    """A training whose mean loss is held at a bound, and whose weights are averaged."""

    def __init__(self, bound: float, average_epochs: float) -> None:
        super().__init__(bound)
        self.average_epochs = check_number("average_epochs", average_epochs, "[0, ∞)")
        self._average: AveragedWeights | None = None
        self._is_shown = False

    def _start_averaging(self, model: nn.Module, epoch_steps: float, all_steps: float) -> None:
        """Start a new average; both numbers of steps may be infinite."""
        self._average, self._is_shown = None, False
        if self.average_epochs:
            steps = min(self.average_epochs * epoch_steps, _LARGEST_SHARE * all_steps)
            steps = steps if math.isfinite(steps) else _STEPS_OF_A_STREAM
            self._average = AveragedWeights(model, max(1.0, steps))

    def _update_average(self, model: nn.Module) -> None:
        if self._average is not None:
            self._average.update_parameters(model)

    def _show_average(self, model: nn.Module, show: bool = True) -> None:
        """Put the averaged weights into the model, or the last weights back."""
        if self._average is not None and self._average.has_averaged and self._is_shown != show:
            self._average.swap(model)
            self._is_shown = show
