"""Put label noise into clean labels, and report the realized noise."""

from noisebound.corruption.corrupt import NOISE_KINDS, NoiseKind, NoisyLabels, corrupt
from noisebound.corruption.kinds import (
    CIFAR100_SUPERCLASSES,
    cifar100_superclass_of,
    linear_probabilities,
)

__all__ = [
    "CIFAR100_SUPERCLASSES",
    "NOISE_KINDS",
    "NoiseKind",
    "NoisyLabels",
    "cifar100_superclass_of",
    "corrupt",
    "linear_probabilities",
]
