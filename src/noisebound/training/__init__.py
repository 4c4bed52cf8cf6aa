"""Training a network: Algorithm 1, its objective, its state and the devices that it runs on."""

from noisebound.estimation import UnknownNoiseWarning
from noisebound.training.config import TrainingConfig
from noisebound.training.metrics import EpochMetrics

__all__ = ["EpochMetrics", "TrainingConfig", "UnknownNoiseWarning"]
