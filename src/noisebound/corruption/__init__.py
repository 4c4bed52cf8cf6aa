"""Put label noise into clean labels, and report the realized noise."""

from noisebound.corruption.corrupt import NOISE_KINDS, NoiseKind, NoisyLabels, corrupt
from noisebound.corruption.superclasses import CIFAR100_SUPERCLASSES, cifar100_superclass_of

__all__ = [
    "CIFAR100_SUPERCLASSES",
    "NOISE_KINDS",
    "NoiseKind",
    "NoisyLabels",
    "cifar100_superclass_of",
    "corrupt",
]
