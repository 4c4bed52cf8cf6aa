"""Estimating label noise: its rate, its structure, and the labels that are wrong."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.estimation.annotators import AnnotatorEstimate, estimate_annotators
    from noisebound.estimation.clean_scores import CleanScore, clean_score
    from noisebound.estimation.conformal import conformal_threshold, prediction_sets
    from noisebound.estimation.estimate import Diagnostics, NoiseEstimate, estimate_noise
    from noisebound.estimation.estimated_noise import Checked, EstimatedNoise, estimated_noise
    from noisebound.estimation.floor import Floor, measured_floor
    from noisebound.estimation.multi_label import MultiLabelEstimate, MultiLabelSuspects
    from noisebound.estimation.names import ESTIMATION_METHODS, EstimationMethod
    from noisebound.estimation.noise import (
        BoundChoice,
        GivenRate,
        GivenTransition,
        Noise,
        UnknownNoise,
        UnknownNoiseWarning,
    )
    from noisebound.estimation.predictions import OutOfFold
    from noisebound.estimation.suspects import Suspects, find_suspects
    from noisebound.estimation.tokens import (
        Span,
        SpanSuspect,
        TagSchemeWarning,
        TokenSuspects,
    )

import_when_used(__name__)

__all__ = [
    "ESTIMATION_METHODS",
    "AnnotatorEstimate",
    "BoundChoice",
    "Checked",
    "CleanScore",
    "Diagnostics",
    "EstimatedNoise",
    "EstimationMethod",
    "Floor",
    "GivenRate",
    "GivenTransition",
    "MultiLabelEstimate",
    "MultiLabelSuspects",
    "Noise",
    "NoiseEstimate",
    "OutOfFold",
    "Span",
    "SpanSuspect",
    "Suspects",
    "TagSchemeWarning",
    "TokenSuspects",
    "UnknownNoise",
    "UnknownNoiseWarning",
    "clean_score",
    "conformal_threshold",
    "estimate_annotators",
    "estimate_noise",
    "estimated_noise",
    "find_suspects",
    "measured_floor",
    "prediction_sets",
]
