"""Train classifiers on noisy labels without memorizing the noise."""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

import noisebound.starting  # noqa: F401  (before all that takes long to import)
from noisebound.averaging import AveragedWeights
from noisebound.bayes_risk import BoundSearchWarning
from noisebound.bounded import BoundedLoss, ClassCountWarning, NoiseBoundedLoss, StepBound
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
from noisebound.errors import DataError, MissingExtraError, NoiseboundError
from noisebound.estimation import (
    Floor,
    NoiseEstimate,
    Suspects,
    UnknownNoiseWarning,
    estimate_noise,
    find_suspects,
    measured_floor,
)
from noisebound.extras import missing_extra
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

if TYPE_CHECKING:
    from noisebound.entry import fit, load_run
    from noisebound.runs import Run

__version__ = _version("noisebound")

_IMPORTED_WHEN_USED = {
    "fit": "noisebound.entry",
    "load_run": "noisebound.entry",
    "Run": "noisebound.runs",
}


def __getattr__(name: str) -> Any:
    """Import names that need the extra ``cli`` when they are used."""
    if name not in _IMPORTED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_IMPORTED_WHEN_USED[name])
    except ModuleNotFoundError as error:
        missing = missing_extra(f"noisebound.{name}", error)
        if missing is None:
            raise
        raise missing from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "LOSS_NAMES",
    "NOISE_KINDS",
    "ActivePassive",
    "AsymmetricExponential",
    "AsymmetricGeneralizedCrossEntropy",
    "AsymmetricUnhinged",
    "AveragedWeights",
    "BackwardCrossEntropy",
    "Bootstrapping",
    "BoundSearchWarning",
    "BoundedLoss",
    "ClassCountWarning",
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
    "Truncated",
    "UnknownNoiseWarning",
    "corrupt",
    "create_loss",
    "entropy",
    "entropy_interval",
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
