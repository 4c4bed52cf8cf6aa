"""Learners: a network, linear models, boosting, trees, neighbors, anyone's estimator."""

from noisebound.learners.estimators import (
    AnyEstimator as AnyEstimator,
    Boosting as Boosting,
    EstimatorLearner as EstimatorLearner,
    FittedEstimator as FittedEstimator,
    Linear as Linear,
    Trees as Trees,
)
from noisebound.learners.learner import Learner as Learner
from noisebound.learners.neighbors import FittedNeighbors as FittedNeighbors, Neighbors as Neighbors
from noisebound.learners.network import Network as Network
from noisebound.learners.stored import Ensemble as Ensemble
