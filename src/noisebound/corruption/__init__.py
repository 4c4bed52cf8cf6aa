"""Put label noise into clean labels, and report the realized noise."""

from noisebound.corruption.corrupt import (
    NOISE_KINDS as NOISE_KINDS,
    NoiseKind as NoiseKind,
    NoisyLabels as NoisyLabels,
    corrupt as corrupt,
)
from noisebound.corruption.kinds import (
    CIFAR100_SUPERCLASSES as CIFAR100_SUPERCLASSES,
    cifar100_superclass_of as cifar100_superclass_of,
    linear_probabilities as linear_probabilities,
)
