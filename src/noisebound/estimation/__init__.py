"""Taking the noise out again: how much there is, of what structure, and in which labels."""

from noisebound.estimation.estimate import ESTIMATION_METHODS, EstimationMethod, estimate_noise
from noisebound.estimation.floor import Floor, measured_floor
from noisebound.estimation.noise_estimate import Diagnostics, NoiseEstimate

__all__ = [
    "ESTIMATION_METHODS",
    "Diagnostics",
    "EstimationMethod",
    "Floor",
    "NoiseEstimate",
    "estimate_noise",
    "measured_floor",
]
