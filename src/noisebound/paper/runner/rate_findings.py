"""Part one of a cell: the noise rate by every estimate, with the truth beside it."""

from typing import TypedDict

import torch

from noisebound.estimation import NoiseEstimate, estimate_noise
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.paper.runner.estimate_predictions import Predictions

CHECKED = 100
"""How many labels are checked by hand where the estimate is given trusted labels."""


class Rate(TypedDict):
    """A noise rate and its interval at 95 % confidence."""

    rate: float
    low: float
    high: float


class RateFindings(TypedDict):
    """What is found and what is true.

    Keys:
        noise_rate: the true share of wrong labels
        examples: the number of labels
        differing: how often the two sets of predictions differ
        one_set: our estimate by one set of predictions
        two_sets: our estimate by both
        trusted: our estimate by one set and by labels that were checked
        cleanlab: confident learning's rate, by the first set
        warnings: what our estimate says against itself
    """

    noise_rate: float
    examples: int
    differing: float
    one_set: Rate
    two_sets: Rate
    trusted: Rate
    cleanlab: float
    warnings: list[str]


def rate_findings(found: Predictions, seed: int) -> RateFindings:
    """Return the noise rate by every estimate.

    Args:
        found: the predictions
        seed: draws the labels that are checked
    """
    probs, labels = found.first, found.labels
    generator = torch.Generator().manual_seed(seed)
    checked = torch.randperm(len(labels), generator=generator)[:CHECKED]
    one = estimate_noise(probs, labels)
    two = estimate_noise(probs, labels, second_probs=found.second)
    told = estimate_noise(probs, labels, trusted=(checked, found.true_labels[checked]))
    return RateFindings(
        noise_rate=found.noise_rate,
        examples=len(labels),
        differing=(probs.argmax(1) != found.second.argmax(1)).double().mean().item(),
        one_set=_rate(one),
        two_sets=_rate(two),
        trusted=_rate(told),
        cleanlab=_cleanlabs_rate(found),
        warnings=list(one.diagnostics.warnings),
    )


def _rate(estimate: NoiseEstimate) -> Rate:
    low, high = estimate.interval
    return Rate(rate=estimate.noise_rate, low=low, high=high)


def _cleanlabs_rate(found: Predictions) -> float:
    require_cleanlab()
    from cleanlab.count import estimate_joint

    joint = estimate_joint(found.labels.numpy(), found.first.numpy())
    return float(1 - joint.trace())
