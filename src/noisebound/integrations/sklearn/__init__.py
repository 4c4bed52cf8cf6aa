"""A scikit-learn estimator."""

from noisebound.extras import missing_extra

try:
    from noisebound.integrations.sklearn.classifier import (
        InterruptedTrainingWarning,
        NoiseBoundedClassifier,
    )
    from noisebound.training import UnknownNoiseWarning
except ModuleNotFoundError as error:
    missing = missing_extra("noisebound.integrations.sklearn", error)
    if missing is None:
        raise
    raise missing from error

__all__ = ["InterruptedTrainingWarning", "NoiseBoundedClassifier", "UnknownNoiseWarning"]
