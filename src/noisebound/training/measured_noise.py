"""The noise of the training labels, measured before training, and the bound that follows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float, Float64, Int64
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
from noisebound.training.noise import Bound

_CORRECTIONS = (ForwardCrossEntropy, BackwardCrossEntropy)


@dataclass(frozen=True, eq=False)
class MeasuredNoise:
    """What held-out predictions tell about the noise.

    Args:
        logits: for every training example, by a network that was not trained on it
        labels: of the training examples, noisy
        method: by which the noise is estimated
    """

    logits: Float[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    method: EstimationMethod = "agreement"

    @cached_property
    def estimate(self) -> NoiseEstimate:
        """The rate, the transition matrix, and how far to trust them."""
        return estimate_noise(self.logits.double().softmax(1), self.labels, self.method)

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """As estimated."""
        return self.estimate.transition

    @property
    def noise_rate(self) -> float:
        """As estimated, but not so high that labels would be worse than useless."""
        num_classes = self.logits.shape[1]
        return min(self.estimate.noise_rate, (num_classes - 1) / num_classes)

    def floor(self, criterion: Loss) -> Floor:
        """The least held-out loss; of a corrected loss that of what it corrects."""
        is_forward = isinstance(criterion, ForwardCrossEntropy)
        return measured_floor(CrossEntropy() if is_forward else criterion, self.logits, self.labels)

    def bound(self, criterion: Loss) -> Bound:
        """The lower of what theory says of the estimated noise, and of what was measured.

        Theory knows nothing of classes that look alike, and the paper's noise-bound supposes the
        worst structure that noise of a rate can have; the floor knows both, but lies as far above
        the entropy as the model that measured it is from perfect.
        """
        theory = self._bound_by_theory(criterion)
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
        if isinstance(criterion, _CORRECTIONS):
            level = transition_bound(criterion, estimate.transition, estimate.class_prior)
            return Bound(
                level, "estimated transition", "the entropy of the estimated transition matrix"
            )
        level = noise_bound(criterion, self.noise_rate, self.logits.shape[1])
        words = f"the noise-bound of the estimated noise rate {self.noise_rate:.3f}"
        return Bound(level, "estimated noise rate", words)

    def record(self) -> dict[str, Any]:
        """For ``result.json``."""
        floor = self.floor(CrossEntropy())
        measured = {"level": floor.level, "standard_error": floor.standard_error}
        return self.estimate.record() | {"floor": measured}
