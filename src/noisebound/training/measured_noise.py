"""The noise of the training labels, measured before training, and the bound that follows."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.bounds import noise_bound, transition_bound
from noisebound.estimation import (
    EstimationMethod,
    Floor,
    NoiseEstimate,
    estimate_noise,
    measured_floor,
)
from noisebound.losses import BackwardCrossEntropy, CrossEntropy, ForwardCrossEntropy, Loss
from noisebound.training.held_out import HeldOut
from noisebound.training.noise import Bound

_UNDERFIT = (
    "the networks that were to measure the noise were still learning when their epochs ended, and "
    "their mistakes would pass for noise; train for longer or with a higher learning rate, or give "
    "the noise rate"
)


@dataclass(frozen=True, eq=False)
class MeasuredNoise:
    """What held-out predictions tell about the noise.

    Args:
        held_out: predictions for every training example
        labels: of the training examples, noisy
        method: by which the noise is estimated
    """

    held_out: HeldOut
    labels: Int64[Tensor, " n"]
    method: EstimationMethod = "agreement"

    @cached_property
    def estimate(self) -> NoiseEstimate:
        """The rate, the transition matrix, and how far to trust them."""
        found = estimate_noise(self.held_out.logits.double().softmax(1), self.labels, self.method)
        if not self.held_out.is_underfit:
            return found
        diagnostics = found.diagnostics
        warnings = (*diagnostics.warnings, _UNDERFIT)
        return replace(found, diagnostics=replace(diagnostics, warnings=warnings))

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """As estimated; none, where the estimate is worth nothing."""
        if self.held_out.is_underfit:
            return torch.eye(self.held_out.logits.shape[1], dtype=torch.float64)
        return self.estimate.transition

    @property
    def noise_rate(self) -> float:
        """As estimated, but not so high that labels would be worse than useless."""
        if self.held_out.is_underfit:
            return 0.0
        num_classes = self.held_out.logits.shape[1]
        return min(self.estimate.noise_rate, (num_classes - 1) / num_classes)

    def floor(self, criterion: Loss) -> Floor:
        """The least held-out loss; of a corrected loss that of what it corrects."""
        is_forward = isinstance(criterion, ForwardCrossEntropy)
        return measured_floor(
            CrossEntropy() if is_forward else criterion, self.held_out.logits, self.labels
        )

    def bound(self, criterion: Loss) -> Bound:
        """The lower of what theory says of the estimated noise, and of what was measured.

        Theory knows nothing of classes that look alike, and the paper's noise-bound supposes the
        worst structure that noise of a rate can have; the floor knows both, but lies as far above
        the entropy as the model that measured it is from perfect.
        """
        theory = self._bound_by_theory(criterion)
        if self.held_out.is_underfit:
            return Bound(theory.level, "not measured", f"as if there were no noise: {_UNDERFIT}")
        if isinstance(criterion, BackwardCrossEntropy):
            return theory  # unbounded below, so that held-out losses tell nothing
        floor = self.floor(criterion)
        if theory.level <= floor.cautious_level:
            beside = f"below the measured floor, {floor.level:.3f} ± {floor.standard_error:.3f}"
            return Bound(theory.level, theory.origin, f"{theory.reason}; {beside}")
        return Bound(
            floor.cautious_level,
            "measured floor",
            f"the least held-out loss, {floor.level:.3f} ± {floor.standard_error:.3f}, less its "
            f"error; below {theory.level:.3f}, {theory.reason}",
        )

    def _bound_by_theory(self, criterion: Loss) -> Bound:
        estimate = self.estimate
        if isinstance(criterion, ForwardCrossEntropy | BackwardCrossEntropy):
            level = transition_bound(criterion, self.transition, estimate.class_prior)
            return Bound(
                level, "estimated transition", "the entropy of the estimated transition matrix"
            )
        level = noise_bound(criterion, self.noise_rate, self.held_out.logits.shape[1])
        words = f"the noise-bound of the estimated noise rate {self.noise_rate:.3f}"
        return Bound(level, "estimated noise rate", words)

    def record(self) -> dict[str, Any]:
        """For ``result.json``."""
        floor = self.floor(CrossEntropy())
        measured = {"level": floor.level, "standard_error": floor.standard_error}
        return self.estimate.record() | {
            "floor": measured,
            "is_underfit": self.held_out.is_underfit,
        }
