"""The search for a recipe: candidates, their trials, the evidence and the choice."""

from noisebound.search.fit import Problem, estimate_label_noise, fit_network

__all__ = ["Problem", "estimate_label_noise", "fit_network"]
