"""Putting label noise into clean labels, and saying precisely what was done."""

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
