"""Train classifiers on noisy labels without memorizing the noise."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.averaging import AveragedWeights as AveragedWeights
    from noisebound.bayes_risk import BoundSearchWarning as BoundSearchWarning
    from noisebound.border_bound import border_bound as border_bound
    from noisebound.bounded import (
        BoundedLoss as BoundedLoss,
        ClassCountWarning as ClassCountWarning,
        NoiseBoundedLoss as NoiseBoundedLoss,
    )
    from noisebound.bounds import (
        entropy as entropy,
        entropy_interval as entropy_interval,
        noise_bound as noise_bound,
        nonuniform_bound as nonuniform_bound,
        pairwise_noise as pairwise_noise,
        posterior_bound as posterior_bound,
        symmetric_noise as symmetric_noise,
        transition_bound as transition_bound,
    )
    from noisebound.catalog import LOSS_NAMES as LOSS_NAMES, create_loss as create_loss
    from noisebound.checks import NoiseRateWarning as NoiseRateWarning
    from noisebound.corruption import (
        NOISE_KINDS as NOISE_KINDS,
        NoisyLabels as NoisyLabels,
        corrupt as corrupt,
    )
    from noisebound.entry import fit as fit, load_run as load_run
    from noisebound.errors import (
        DataError as DataError,
        MissingExtraError as MissingExtraError,
        NoiseboundError as NoiseboundError,
    )
    from noisebound.estimation import (
        AnnotatorEstimate as AnnotatorEstimate,
        CleanScore as CleanScore,
        Floor as Floor,
        MultiLabelEstimate as MultiLabelEstimate,
        MultiLabelSuspects as MultiLabelSuspects,
        NoiseEstimate as NoiseEstimate,
        PixelSuspects as PixelSuspects,
        Suspects as Suspects,
        TokenSuspects as TokenSuspects,
        UnknownNoiseWarning as UnknownNoiseWarning,
        clean_score as clean_score,
        estimate_annotators as estimate_annotators,
        estimate_noise as estimate_noise,
        find_pixel_suspects as find_pixel_suspects,
        find_suspects as find_suspects,
        measured_floor as measured_floor,
    )
    from noisebound.losses import (
        ActivePassive as ActivePassive,
        AsymmetricExponential as AsymmetricExponential,
        AsymmetricFocal as AsymmetricFocal,
        AsymmetricGeneralizedCrossEntropy as AsymmetricGeneralizedCrossEntropy,
        AsymmetricUnhinged as AsymmetricUnhinged,
        BackwardCrossEntropy as BackwardCrossEntropy,
        BinaryCrossEntropy as BinaryCrossEntropy,
        Bootstrapping as Bootstrapping,
        CrossEntropy as CrossEntropy,
        Curriculum as Curriculum,
        EarlyLearning as EarlyLearning,
        Focal as Focal,
        ForwardCrossEntropy as ForwardCrossEntropy,
        GeneralizedCrossEntropy as GeneralizedCrossEntropy,
        JensenShannon as JensenShannon,
        LabelDistributionallyRobust as LabelDistributionallyRobust,
        LabelSmoothing as LabelSmoothing,
        Loss as Loss,
        MeanAbsoluteError as MeanAbsoluteError,
        MeanSquaredError as MeanSquaredError,
        Normalized as Normalized,
        NormalizedCrossEntropyMAE as NormalizedCrossEntropyMAE,
        PerLabel as PerLabel,
        PriorCrossEntropy as PriorCrossEntropy,
        ReverseCrossEntropy as ReverseCrossEntropy,
        Spherical as Spherical,
        SymmetricCrossEntropy as SymmetricCrossEntropy,
        TaylorCrossEntropy as TaylorCrossEntropy,
        Truncated as Truncated,
    )
    from noisebound.monitor import (
        MemorizationMonitor as MemorizationMonitor,
        MemorizationWarning as MemorizationWarning,
    )
    from noisebound.runs import MultiLabelRun as MultiLabelRun, Run as Run
    from noisebound.step_bound import StepBound as StepBound

import_when_used(__name__)

__version__ = _version("noisebound")
