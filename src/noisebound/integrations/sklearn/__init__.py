"""A scikit-learn estimator."""

from noisebound.errors import MissingExtraError

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as missing:
    raise MissingExtraError(
        "noisebound.integrations.sklearn", "scikit-learn", "sklearn"
    ) from missing

from noisebound.integrations.sklearn.classifier import (
    InterruptedTrainingWarning,
    NoiseBoundedClassifier,
)
from noisebound.training import UnknownNoiseWarning

__all__ = ["InterruptedTrainingWarning", "NoiseBoundedClassifier", "UnknownNoiseWarning"]
