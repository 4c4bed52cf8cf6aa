"""Learners: a network, linear models, boosting, trees, neighbors, anyone's estimator."""

from noisebound.learners.ensemble import Ensemble
from noisebound.learners.estimators import (
    AnyEstimator,
    Boosting,
    EstimatorLearner,
    FittedEstimator,
    Linear,
    Trees,
)
from noisebound.learners.learner import Learner
from noisebound.learners.neighbors import FittedNeighbors, Neighbors
from noisebound.learners.network import Network

__all__ = [
    "AnyEstimator",
    "Boosting",
    "Ensemble",
    "EstimatorLearner",
    "FittedEstimator",
    "FittedNeighbors",
    "Learner",
    "Linear",
    "Neighbors",
    "Network",
    "Trees",
]
