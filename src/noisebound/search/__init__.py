"""What to train with: recipes, their trials, the evidence that these give, and the choice."""

from noisebound.search.fit import Problem, estimate_label_noise, fit_network

__all__ = ["Problem", "estimate_label_noise", "fit_network"]
