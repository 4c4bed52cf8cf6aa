"""A scikit-learn estimator."""

from noisebound.integrations.sklearn.classifier import NoiseBoundedClassifier

__all__ = ["NoiseBoundedClassifier"]
