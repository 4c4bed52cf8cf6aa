"""Estimating label noise: its rate, its structure, and the labels that are wrong."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.estimation.annotators import (
        AnnotatorEstimate as AnnotatorEstimate,
        estimate_annotators as estimate_annotators,
    )
    from noisebound.estimation.clean_scores import (
        CleanScore as CleanScore,
        clean_score as clean_score,
    )
    from noisebound.estimation.conformal import (
        conformal_threshold as conformal_threshold,
        prediction_sets as prediction_sets,
    )
    from noisebound.estimation.estimate import (
        Diagnostics as Diagnostics,
        NoiseEstimate as NoiseEstimate,
        estimate_noise as estimate_noise,
    )
    from noisebound.estimation.estimated_noise import (
        Checked as Checked,
        EstimatedNoise as EstimatedNoise,
        estimated_noise as estimated_noise,
    )
    from noisebound.estimation.floor import (
        Floor as Floor,
        measured_floor as measured_floor,
    )
    from noisebound.estimation.multi_label import (
        MultiLabelEstimate as MultiLabelEstimate,
        MultiLabelSuspects as MultiLabelSuspects,
    )
    from noisebound.estimation.names import (
        ESTIMATION_METHODS as ESTIMATION_METHODS,
        EstimationMethod as EstimationMethod,
    )
    from noisebound.estimation.noise import (
        BoundChoice as BoundChoice,
        GivenRate as GivenRate,
        GivenTransition as GivenTransition,
        Noise as Noise,
        UnknownNoise as UnknownNoise,
        UnknownNoiseWarning as UnknownNoiseWarning,
    )
    from noisebound.estimation.pixels import (
        PixelSuspects as PixelSuspects,
        Region as Region,
        find_pixel_suspects as find_pixel_suspects,
    )
    from noisebound.estimation.predictions import OutOfFold as OutOfFold
    from noisebound.estimation.suspects import (
        Suspects as Suspects,
        find_suspects as find_suspects,
    )
    from noisebound.estimation.tokens import (
        Span as Span,
        SpanSuspect as SpanSuspect,
        TagSchemeWarning as TagSchemeWarning,
        TokenSuspects as TokenSuspects,
    )

import_when_used(__name__)
