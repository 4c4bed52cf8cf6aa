"""What labels alone can tell of their noise rate: two ends, and what a point between them assumes.

Labels differ from predictions because labels are wrong, or because predictions are. How often they
differ is an upper end: nobody who predicts better will differ more. Where a model is surest it is
hardly ever wrong itself, so the labels that differ there are a lower end, unless the model is sure
without reason: two models that were trained on different examples then differ from each other, and
as often as they do the lower end comes down.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.bounds import symmetric_columns
from noisebound.estimation.agreement import SUREST, surest_of_each_class

_TRUST_IN_SUREST = 2 / 3
"""How far the point lies from the rate that all examples show to the rate that the surest show. The
former is right if noise goes with difficulty, the latter if it does not. Chosen on seven tables and
three planted cases; `benchmarks/noise_interval.py` has others."""


@dataclass(frozen=True)
class Identification:
    """The rates that the labels allow, before chance is added.

    Args:
        low: the least
        high: the greatest
        point: one in between
        low_error: the standard error of the least
        high_error: the standard error of the greatest
    """

    low: float
    high: float
    point: float
    low_error: float
    high_error: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two ends with chance added, at a confidence in ``(0, 1)``."""
        from scipy.special import ndtri  # takes longer to import than all of noisebound

        reach = float(ndtri((1 + confidence) / 2))
        low, high = self.low - reach * self.low_error, self.high + reach * self.high_error
        return max(0.0, low), min(1.0, high)

    @property
    def words(self) -> str:
        """What the labels can tell and what they cannot, in sentences."""
        return (
            f"Labels differ from predictions in {self.high:.1%} of the examples. No more are "
            "wrong, unless the inputs foretell where people err, which no method can see. "
            f"At least {self.low:.1%} differ where the predictions are surest. "
            "The estimate in between assumes that labels of hard examples are wrong hardly more "
            "often than those of easy ones. Only labels that a person has checked can settle it."
        )


def identify(
    probs: Float[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    surest_rate: float,
    second_probs: Float[Tensor, "n classes"] | None = None,
) -> Identification:
    """Return the rates that labels and out-of-fold predictions allow.

    Args:
        probs: predictions of a model that was not trained on these examples
        labels: the observed labels
        surest_rate: how often labels differ where the model is surest, each class by its share
        second_probs: predictions of a second model that was trained on other examples
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    other = None if second_probs is None else predicted != second_probs.argmax(1)
    high, high_error = _share(differs)
    # Without a second model only its distance from guessing speaks for the first.
    commonest = labels.bincount().max().item() / len(labels)
    skill = max(0.0, 1 - high / max(1 - commonest, 1 / len(labels)))
    lows = []
    for share in (SUREST, SUREST / 2):
        surest = surest_of_each_class(sureness, predicted, probs.shape[1], share)
        seen, error = _share(differs[surest])
        low = skill * seen if other is None else seen - _share(other[surest])[0]
        lows.append((low, error))
    low, low_error = min(lows)
    surest = surest_of_each_class(sureness, predicted, probs.shape[1], SUREST)
    sure_rate = _without_own_errors(surest_rate, None if other is None else other[surest])
    whole_rate = _without_own_errors(high, other)
    # One model cannot tell its own errors from the labels': then only the surest examples count.
    trust = 1.0 if other is None else _TRUST_IN_SUREST
    low = min(max(0.0, low), high)
    point = trust * sure_rate + (1 - trust) * whole_rate
    return Identification(
        low=low,
        high=high,
        point=min(max(point, low), high),
        low_error=low_error,
        high_error=high_error,
    )


def _share(is_true: Bool[Tensor, " n"]) -> tuple[float, float]:
    """Return a share and its standard error, which is positive also where none or all are true."""
    n, count = len(is_true), int(is_true.sum())
    share = count / n
    cautious = (count + 1) / (n + 2)
    return share, math.sqrt(cautious * (1 - cautious) / n)


def _without_own_errors(differing: float, other: Bool[Tensor, " n"] | None) -> float:
    """Return the rate that is left when a model's own errors are taken out.

    Two models of a kind err in about half of the cases in which they differ. A label agrees with a
    prediction if both are right: ``1 - d = (1 - rate)(1 - e)``.

    Args:
        differing: the share d of labels that differ from the predictions
        other: where a second model differs from the first; None if there is one only
    """
    own = 0.0 if other is None else _share(other)[0] / 2
    return max(0.0, 1 - (1 - differing) / (1 - own))


def with_rate(
    transition: Float64[Tensor, "classes classes"],
    prior: Float64[Tensor, " classes"],
    rate: float,
) -> Float64[Tensor, "classes classes"]:
    """Return a matrix of the same structure with another rate; the true class stays likeliest.

    Args:
        transition: ``T[noisy, true]``, columns summing to one
        prior: the share of each true class
        rate: the share of wrong labels that the matrix is to have, as far as the second wish allows
    """
    identity = torch.eye(len(transition), dtype=transition.dtype)
    before = float((prior * (1 - transition.diagonal())).sum())
    if before <= 0:  # of the structure nothing is known
        transition, before = symmetric_columns(torch.tensor(0.5).to(identity), len(identity)), 0.5
    wrong = (transition - identity) * (rate / before)
    off_diagonal = wrong.clone().fill_diagonal_(0).max(0).values
    # (1 - a·missing) ≥ a·greatest keeps the true class ahead of every other.
    most = 1 / (off_diagonal - wrong.diagonal()).clamp(min=1)
    return identity + wrong * most
