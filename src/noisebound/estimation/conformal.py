"""Prediction sets that cover the true class, calibrated on noisy labels.

A class is in the set of an example if its probability is at least a threshold. With true labels,
the threshold is a quantile of the true classes' probabilities. With noisy labels, the share of
true classes above a threshold ``t`` is the mean of ``Σ_k S[i, k] 1[p_i[k] ≥ t]``, where ``S`` is a
stand-in for the truth as in `noisebound.estimation.truth` (Sesia et al., 2023; Penso et al., 2025).
"""

import math

from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.checks import ArrayLike, check_number
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import check_labels, check_predictions
from noisebound.estimation.truth import AnyNoise, NoiseRange, own_estimate

_SHARE = 0.6
"""Part of the correction for noise that is independent of the model's mistakes. All of it makes the
sets too small where noise is more frequent on hard examples. By the dev half of `results/scores`,
the sets then cover 89 to 98 % of the true classes at a coverage of 90 %, by the kind of noise."""
_ROUNDING = 1e-9  # of a sum of shares


def conformal_threshold(
    probs: ArrayLike, labels: ArrayLike, noise: AnyNoise | None = None, coverage: float = 0.9
) -> float:
    """Return the least probability of a class in a prediction set.

    Sets of the classes that are at least as probable contain the *true* class with the probability
    ``coverage``, on average over examples like these.

    Args:
        probs: class probabilities of a model that was not trained on these examples
        labels: observed class indices
        noise: the noise of the labels, as in `clean_score` (default: estimated from ``probs``)
        coverage: the share of sets that contain the true class, in ``(0, 1)``

    Example:
        >>> import torch
        >>> probs = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6]]).repeat(10, 1)
        >>> labels = torch.tensor([0, 2, 2]).repeat(10)
        >>> threshold = conformal_threshold(probs, labels, noise=0.0, coverage=0.9)
        >>> prediction_sets(probs[:3], threshold).int().tolist()
        [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
    """
    coverage = check_number("coverage", coverage, "(0, 1)")
    predictions = check_predictions(probs)
    observed = check_labels(labels, predictions, "probs")
    needed = coverage * (1 + 1 / len(observed))
    if needed > 1:
        least = math.ceil(coverage / (1 - coverage))
        raise InvalidValueError(
            f"a `coverage` of {coverage:g} needs at least {least} labels to calibrate, got "
            f"{len(observed)}: lower it, or give more labels"
        )
    noise = own_estimate(predictions, observed) if noise is None else noise
    known = NoiseRange.of(noise, predictions.shape[1])
    if len(known.middle) != predictions.shape[1]:
        raise InvalidValueError(
            f"`probs` must have one column for each of {len(known.middle)} classes of the noise, "
            f"got {predictions.shape[1]}"
        )
    if not known.is_informative:
        return 0.0
    truth = known.truth(observed, _SHARE) / len(observed)
    levels, order = predictions.flatten().sort(descending=True)
    covered = truth.flatten()[order].cumsum(0)
    # The last of equal levels counts. The share may fall again because of the inverse, so the last
    # level that covers too few labels decides.
    too_small = (covered < needed - _ROUNDING) & (levels != levels.roll(-1))
    too_small[-1] = covered[-1] < needed - _ROUNDING
    smaller = levels[int(too_small.nonzero()[-1]) + 1 :] if too_small.any() else levels
    return float(smaller[0]) if len(smaller) else 0.0


def prediction_sets(
    probs: Float[Tensor, "n classes"], threshold: float
) -> Bool[Tensor, "n classes"]:
    """Return which classes are in each set; the likeliest one always is."""
    return (probs >= threshold).scatter(1, probs.argmax(1, keepdim=True), True)
