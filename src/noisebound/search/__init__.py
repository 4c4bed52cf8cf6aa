"""What to train with: recipes, their trials, the evidence that these give, and the choice."""

from noisebound.search.fit import Fitting, estimate_label_noise

__all__ = ["Fitting", "estimate_label_noise"]
