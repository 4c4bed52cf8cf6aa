"""Train classifiers on noisy labels without memorizing the noise."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.averaging import AveragedWeights
    from noisebound.bayes_risk import BoundSearchWarning
    from noisebound.bounded import BoundedLoss, ClassCountWarning, NoiseBoundedLoss
    from noisebound.bounds import (
        entropy,
        entropy_interval,
        noise_bound,
        nonuniform_bound,
        pairwise_noise,
        posterior_bound,
        symmetric_noise,
        transition_bound,
    )
    from noisebound.catalog import LOSS_NAMES, create_loss
    from noisebound.checks import NoiseRateWarning
    from noisebound.corruption import NOISE_KINDS, NoisyLabels, corrupt
    from noisebound.entry import fit, load_run
    from noisebound.errors import DataError, MissingExtraError, NoiseboundError
    from noisebound.estimation import (
        AnnotatorEstimate,
        CleanScore,
        Floor,
        NoiseEstimate,
        Suspects,
        TokenSuspects,
        UnknownNoiseWarning,
        clean_score,
        estimate_annotators,
        estimate_noise,
        find_suspects,
        measured_floor,
    )
    from noisebound.losses import (
        ActivePassive,
        AsymmetricExponential,
        AsymmetricGeneralizedCrossEntropy,
        AsymmetricUnhinged,
        BackwardCrossEntropy,
        Bootstrapping,
        CrossEntropy,
        Curriculum,
        EarlyLearning,
        Focal,
        ForwardCrossEntropy,
        GeneralizedCrossEntropy,
        JensenShannon,
        LabelDistributionallyRobust,
        LabelSmoothing,
        Loss,
        MeanAbsoluteError,
        MeanSquaredError,
        Normalized,
        NormalizedCrossEntropyMAE,
        PriorCrossEntropy,
        ReverseCrossEntropy,
        Spherical,
        SymmetricCrossEntropy,
        TaylorCrossEntropy,
        Truncated,
    )
    from noisebound.monitor import MemorizationMonitor, MemorizationWarning
    from noisebound.runs import Run
    from noisebound.step_bound import StepBound

import_when_used(__name__)

__version__ = _version("noisebound")

__all__ = [
    "LOSS_NAMES",
    "NOISE_KINDS",
    "ActivePassive",
    "AnnotatorEstimate",
    "AsymmetricExponential",
    "AsymmetricGeneralizedCrossEntropy",
    "AsymmetricUnhinged",
    "AveragedWeights",
    "BackwardCrossEntropy",
    "Bootstrapping",
    "BoundSearchWarning",
    "BoundedLoss",
    "ClassCountWarning",
    "CleanScore",
    "CrossEntropy",
    "Curriculum",
    "DataError",
    "EarlyLearning",
    "Floor",
    "Focal",
    "ForwardCrossEntropy",
    "GeneralizedCrossEntropy",
    "JensenShannon",
    "LabelDistributionallyRobust",
    "LabelSmoothing",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "MemorizationMonitor",
    "MemorizationWarning",
    "MissingExtraError",
    "NoiseBoundedLoss",
    "NoiseEstimate",
    "NoiseRateWarning",
    "NoiseboundError",
    "NoisyLabels",
    "Normalized",
    "NormalizedCrossEntropyMAE",
    "PriorCrossEntropy",
    "ReverseCrossEntropy",
    "Run",
    "Spherical",
    "StepBound",
    "Suspects",
    "SymmetricCrossEntropy",
    "TaylorCrossEntropy",
    "TokenSuspects",
    "Truncated",
    "UnknownNoiseWarning",
    "clean_score",
    "corrupt",
    "create_loss",
    "entropy",
    "entropy_interval",
    "estimate_annotators",
    "estimate_noise",
    "find_suspects",
    "fit",
    "load_run",
    "measured_floor",
    "noise_bound",
    "nonuniform_bound",
    "pairwise_noise",
    "posterior_bound",
    "symmetric_noise",
    "transition_bound",
]
