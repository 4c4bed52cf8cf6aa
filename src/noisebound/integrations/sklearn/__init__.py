"""A scikit-learn estimator."""

from noisebound.integrations.sklearn.classifier import (
    InterruptedTrainingWarning,
    NoiseBoundedClassifier,
    UnmeasuredNoiseWarning,
)

__all__ = ["InterruptedTrainingWarning", "NoiseBoundedClassifier", "UnmeasuredNoiseWarning"]
