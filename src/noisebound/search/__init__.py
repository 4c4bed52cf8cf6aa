"""The search for a recipe: candidates, their trials, the evidence and the choice."""

from noisebound.search.fit import estimate_label_noise, fit_network
from noisebound.search.problem import Problem

__all__ = ["Problem", "estimate_label_noise", "fit_network"]
