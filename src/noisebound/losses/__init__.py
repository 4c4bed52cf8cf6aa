"""Losses ``L(q, y)``, by families; each has its noise model and its entropy.

Every loss also takes the options of :class:`Loss` as keywords; ``refused_options`` names those that
have no meaning for it.
"""

from noisebound.losses.corrections import BackwardCrossEntropy, ForwardCrossEntropy, LabelSmoothing
from noisebound.losses.likelihood import (
    AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged,
    CrossEntropy,
    Focal,
    GeneralizedCrossEntropy,
    JensenShannon,
    LabelDistributionallyRobust,
    MeanAbsoluteError,
    ReverseCrossEntropy,
    SymmetricCrossEntropy,
    TaylorCrossEntropy,
)
from noisebound.losses.loss import LikelihoodLoss, Loss
from noisebound.losses.whole_prediction import (
    ActivePassive,
    Bootstrapping,
    MeanSquaredError,
    Normalized,
    NormalizedCrossEntropyMAE,
    PriorCrossEntropy,
    Spherical,
)
from noisebound.losses.without_floor import (
    Curriculum,
    EarlyLearning,
    RememberingLoss,
    Truncated,
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
    "SymmetricCrossEntropy",
    "TaylorCrossEntropy",
    "Truncated",
]
