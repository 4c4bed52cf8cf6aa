"""A scikit-learn estimator, and a transformer that embeds texts and images."""

from noisebound.extras import missing_extra

try:
    from noisebound.integrations.sklearn.classifier import (
        InterruptedTrainingWarning,
        NoiseBoundedClassifier,
    )
    from noisebound.integrations.sklearn.embedder import Embedder
    from noisebound.training import UnknownNoiseWarning
except ModuleNotFoundError as error:
    missing = missing_extra("noisebound.integrations.sklearn", error)
    if missing is None:
        raise
    raise missing from error

__all__ = [
    "Embedder",
    "InterruptedTrainingWarning",
    "NoiseBoundedClassifier",
    "UnknownNoiseWarning",
]
