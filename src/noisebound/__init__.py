"""Train classifiers on noisy labels without memorising the noise."""

from importlib.metadata import version as _version

from noisebound.bounded import BoundedLoss, NoiseBoundedLoss, StepBound
from noisebound.bounds import (
    entropy,
    entropy_interval,
    noise_bound,
    nonuniform_bound,
    pairwise_noise,
    symmetric_noise,
    transition_bound,
)
from noisebound.catalog import LOSS_NAMES, create_loss
from noisebound.checks import NoiseRateWarning
from noisebound.corruption import NOISE_KINDS, NoisyLabels, corrupt
from noisebound.estimation import (
    Floor,
    NoiseEstimate,
    Suspects,
    estimate_noise,
    find_suspects,
    measured_floor,
)
from noisebound.losses import (
    BackwardCrossEntropy,
    Bootstrapping,
    CrossEntropy,
    Curriculum,
    EarlyLearning,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    Loss,
    MeanAbsoluteError,
    MeanSquaredError,
    NormalizedCrossEntropyMAE,
    PriorCrossEntropy,
    Spherical,
    SymmetricCrossEntropy,
    Truncated,
)
from noisebound.monitor import MemorizationMonitor, MemorizationWarning

__version__ = _version("noisebound")

__all__ = [
    "LOSS_NAMES",
    "NOISE_KINDS",
    "BackwardCrossEntropy",
    "Bootstrapping",
    "BoundedLoss",
    "CrossEntropy",
    "Curriculum",
    "EarlyLearning",
    "Floor",
    "ForwardCrossEntropy",
    "GeneralizedCrossEntropy",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "MemorizationMonitor",
    "MemorizationWarning",
    "NoiseBoundedLoss",
    "NoiseEstimate",
    "NoiseRateWarning",
    "NoisyLabels",
    "NormalizedCrossEntropyMAE",
    "PriorCrossEntropy",
    "Spherical",
    "StepBound",
    "Suspects",
    "SymmetricCrossEntropy",
    "Truncated",
    "corrupt",
    "create_loss",
    "entropy",
    "entropy_interval",
    "estimate_noise",
    "find_suspects",
    "measured_floor",
    "noise_bound",
    "nonuniform_bound",
    "pairwise_noise",
    "symmetric_noise",
    "transition_bound",
]
