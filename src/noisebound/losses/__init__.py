"""Losses ``L(q, y)``, one family per file; each has its noise model and its entropy."""

from noisebound.losses.asymmetric import (
    AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged,
)
from noisebound.losses.backward_correction import (
    BackwardCrossEntropy,
    SymmetricBackwardCrossEntropy,
)
from noisebound.losses.bootstrapping import Bootstrapping
from noisebound.losses.cross_entropy import CrossEntropy
from noisebound.losses.curriculum import Curriculum
from noisebound.losses.early_learning import EarlyLearning
from noisebound.losses.focal import Focal
from noisebound.losses.forward_correction import ForwardCrossEntropy, SymmetricForwardCrossEntropy
from noisebound.losses.generalized_cross_entropy import GeneralizedCrossEntropy
from noisebound.losses.jensen_shannon import JensenShannon
from noisebound.losses.label_distribution import LabelDistributionallyRobust
from noisebound.losses.label_smoothing import LabelSmoothing
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Loss
from noisebound.losses.mean_absolute_error import MeanAbsoluteError
from noisebound.losses.mean_squared_error import MeanSquaredError
from noisebound.losses.normalized import ActivePassive, Normalized, NormalizedCrossEntropyMAE
from noisebound.losses.prior_cross_entropy import PriorCrossEntropy
from noisebound.losses.remembering import RememberingLoss
from noisebound.losses.reverse_cross_entropy import ReverseCrossEntropy
from noisebound.losses.spherical import Spherical
from noisebound.losses.symmetric_cross_entropy import SymmetricCrossEntropy
from noisebound.losses.taylor_cross_entropy import TaylorCrossEntropy
from noisebound.losses.truncated import Truncated

__all__ = [
    "ActivePassive",
    "AsymmetricExponential",
    "AsymmetricGeneralizedCrossEntropy",
    "AsymmetricUnhinged",
    "BackwardCrossEntropy",
    "Bootstrapping",
    "CrossEntropy",
    "Curriculum",
    "EarlyLearning",
    "Focal",
    "ForwardCrossEntropy",
    "GeneralizedCrossEntropy",
    "JensenShannon",
    "LabelDistributionallyRobust",
    "LabelSmoothing",
    "LikelihoodLoss",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Normalized",
    "NormalizedCrossEntropyMAE",
    "PriorCrossEntropy",
    "RememberingLoss",
    "ReverseCrossEntropy",
    "Spherical",
    "SymmetricBackwardCrossEntropy",
    "SymmetricCrossEntropy",
    "SymmetricForwardCrossEntropy",
    "TaylorCrossEntropy",
    "Truncated",
]
