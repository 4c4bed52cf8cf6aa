"""What is known of the noise, read back from what a run has written of it."""

from collections.abc import Mapping
from typing import Any

import torch

from noisebound.errors import DataError
from noisebound.estimation.estimated_noise import EstimatedNoise
from noisebound.estimation.floor import Floor
from noisebound.estimation.noise import GivenRate, GivenTransition, Noise, UnknownNoise
from noisebound.estimation.noise_estimate import NoiseEstimate
from noisebound.estimation.out_of_fold import OutOfFold


def noise_of_record(record: Mapping[str, Any], out_of_fold: OutOfFold | None = None) -> Noise:
    """Return the noise that :meth:`Noise.record` wrote.

    Args:
        record: what was written
        out_of_fold: the predictions that an estimate was made from, where they are kept
    """
    try:
        match record["kind"]:
            case UnknownNoise.kind:
                rejected = record["rejected"]
                return UnknownNoise(
                    record["num_classes"],
                    record["reason"],
                    None if rejected is None else NoiseEstimate.of_record(rejected),
                )
            case GivenRate.kind:
                return GivenRate(record["rate"], record["num_classes"], record["bound_classes"])
            case GivenTransition.kind:
                return GivenTransition(
                    torch.tensor(record["transition"], dtype=torch.float64),
                    torch.tensor(record["class_prior"], dtype=torch.float64),
                )
            case EstimatedNoise.kind:
                floor = Floor(**record["floor"])
                return EstimatedNoise(NoiseEstimate.of_record(record), floor, out_of_fold)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"what is stored about the noise is damaged: {error!r}") from error
    raise DataError(f"what is stored about the noise is of an unknown kind, {record['kind']!r}")
