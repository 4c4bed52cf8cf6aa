"""Training a network: Algorithm 1, its objective, its state and the devices that it runs on."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.estimation import UnknownNoiseWarning as UnknownNoiseWarning
    from noisebound.training.config import TrainingConfig as TrainingConfig
    from noisebound.training.metrics import EpochMetrics as EpochMetrics

import_when_used(__name__)
