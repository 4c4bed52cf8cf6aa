"""Taking the noise out again: how much there is, of what structure, and in which labels."""

from noisebound.estimation.estimate import ESTIMATION_METHODS, EstimationMethod, estimate_noise
from noisebound.estimation.floor import Floor, measured_floor
from noisebound.estimation.noise_estimate import Diagnostics, NoiseEstimate
from noisebound.estimation.suspects import Suspects, find_suspects

__all__ = [
    "ESTIMATION_METHODS",
    "Diagnostics",
    "EstimationMethod",
    "Floor",
    "NoiseEstimate",
    "Suspects",
    "estimate_noise",
    "find_suspects",
    "measured_floor",
]
