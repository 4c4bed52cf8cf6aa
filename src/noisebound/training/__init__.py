"""The one training engine: Algorithm 1, its state, cross-fitting, and the estimate before it."""

from noisebound.estimation import UnknownNoiseWarning
from noisebound.training.config import TrainingConfig
from noisebound.training.fit import Fitting, estimate_label_noise
from noisebound.training.metrics import EpochMetrics

__all__ = [
    "EpochMetrics",
    "Fitting",
    "TrainingConfig",
    "UnknownNoiseWarning",
    "estimate_label_noise",
]
