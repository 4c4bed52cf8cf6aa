"""The one training engine: Algorithm 1, its state, cross-fitting, and the estimate before it."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.estimation import UnknownNoiseWarning
    from noisebound.training.config import TrainingConfig
    from noisebound.training.fit import Fitting, estimate_label_noise
    from noisebound.training.metrics import EpochMetrics

import_when_used(__name__)

__all__ = [
    "EpochMetrics",
    "Fitting",
    "TrainingConfig",
    "UnknownNoiseWarning",
    "estimate_label_noise",
]
