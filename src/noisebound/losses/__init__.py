"""Losses ``L(q, y)``, by families; each has its noise model and its entropy.

Every loss also takes the options of :class:`Loss` as keywords; ``refused_options`` names those that
have no meaning for it.
"""

from noisebound.losses.corrections import (
    BackwardCrossEntropy as BackwardCrossEntropy,
    ForwardCrossEntropy as ForwardCrossEntropy,
    LabelSmoothing as LabelSmoothing,
)
from noisebound.losses.likelihood import (
    AsymmetricExponential as AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy as AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged as AsymmetricUnhinged,
    CrossEntropy as CrossEntropy,
    Focal as Focal,
    GeneralizedCrossEntropy as GeneralizedCrossEntropy,
    JensenShannon as JensenShannon,
    LabelDistributionallyRobust as LabelDistributionallyRobust,
    MeanAbsoluteError as MeanAbsoluteError,
    ReverseCrossEntropy as ReverseCrossEntropy,
    SymmetricCrossEntropy as SymmetricCrossEntropy,
    TaylorCrossEntropy as TaylorCrossEntropy,
)
from noisebound.losses.loss import LikelihoodLoss as LikelihoodLoss, Loss as Loss
from noisebound.losses.per_label import (
    AsymmetricFocal as AsymmetricFocal,
    BinaryCrossEntropy as BinaryCrossEntropy,
    PerLabel as PerLabel,
)
from noisebound.losses.whole_prediction import (
    ActivePassive as ActivePassive,
    Bootstrapping as Bootstrapping,
    MeanSquaredError as MeanSquaredError,
    Normalized as Normalized,
    NormalizedCrossEntropyMAE as NormalizedCrossEntropyMAE,
    PriorCrossEntropy as PriorCrossEntropy,
    Spherical as Spherical,
)
from noisebound.losses.without_floor import (
    Curriculum as Curriculum,
    EarlyLearning as EarlyLearning,
    RememberingLoss as RememberingLoss,
    Truncated as Truncated,
)
