"""Losses ``L(q, y)``, by families; each has its noise model and its entropy.

Every loss also takes the options of :class:`Loss` as keywords; ``refused_options`` names those that
have no meaning for it.
"""

from noisebound.losses.corrections import (
    BackwardCrossEntropy,
    ForwardCrossEntropy,
    LabelSmoothing,
    SymmetricBackwardCrossEntropy,
    SymmetricForwardCrossEntropy,
)
from noisebound.losses.curriculum import Curriculum
from noisebound.losses.loss import LikelihoodLoss, Loss
from noisebound.losses.memory import EarlyLearning, RememberingLoss, Truncated
from noisebound.losses.normalized import ActivePassive, Normalized, NormalizedCrossEntropyMAE
from noisebound.losses.other_papers import (
    AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged,
    Focal,
    JensenShannon,
    LabelDistributionallyRobust,
    ReverseCrossEntropy,
    TaylorCrossEntropy,
)
from noisebound.losses.proper import CrossEntropy, MeanSquaredError, Spherical
from noisebound.losses.robust import (
    Bootstrapping,
    GeneralizedCrossEntropy,
    MeanAbsoluteError,
    PriorCrossEntropy,
    SymmetricCrossEntropy,
)

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
