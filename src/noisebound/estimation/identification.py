"""What labels alone can tell of their noise rate: two ends, and what a point between them assumes.

Labels differ from predictions because labels are wrong, or because predictions are. How often they
differ is an upper end: nobody who predicts better will differ more. Where a model is surest it is
hardly ever wrong itself, so the labels that differ there are a lower end, unless the model is sure
without reason: two models that were trained on different examples then differ from each other, and
as often as they do the lower end comes down.

Noise that has nothing to do with difficulty shows where the model is surest; noise that goes with
difficulty shows among all examples. Two models of a kind err in about half of the cases in which
they differ, so that half comes off both rates, and the point lies midway between them, since labels
cannot tell which of the two is right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.bounds import symmetric_columns
from noisebound.estimation.agreement import SUREST, surest_of_each_class


@dataclass(frozen=True)
class _End:
    """A share of examples that is a lower end, and its standard error."""

    share: float
    error: float


@dataclass(frozen=True)
class Identification:
    """The rates that the labels allow, before chance is added.

    Args:
        lows: lower ends by all examples, by the surest and by the very surest; the least counts
        high: how often labels differ from predictions
        high_error: its standard error
        point: a rate in between
    """

    lows: Sequence[_End]
    high: float
    high_error: float
    point: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two ends with chance added, at a confidence in ``(0, 1)``."""
        from scipy.special import ndtri  # takes longer to import than all of noisebound

        reach = float(ndtri((1 + confidence) / 2))
        low = min(end.share - reach * end.error for end in self.lows)
        return max(0.0, low), min(1.0, self.high + reach * self.high_error)

    @property
    def words(self) -> str:
        """What the labels can tell and what they cannot, in sentences."""
        low = max(0.0, min(end.share for end in self.lows))
        return (
            f"Labels differ from predictions in {self.high:.1%} of the examples. No more are "
            "wrong, unless the inputs foretell where people err, which no method can see. "
            f"At least {low:.1%} are wrong, if predictions are right where they are surest and "
            "agree. The estimate lies between what all examples and what the surest ones show: "
            "if labels are wrong as often on easy examples as on hard ones, the truth is nearer to "
            "the latter. Only labels that a person has checked can settle it."
        )


def identify(
    probs: Float[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    surest_rate: float,
    in_doubt: Bool[Tensor, " n"] | None = None,
) -> Identification:
    """Return the rates that labels and out-of-fold predictions allow.

    Args:
        probs: predictions of a model that was not trained on these examples, or the mean of two
        labels: the observed labels
        surest_rate: how often labels differ where the model is surest, each class by its share
        in_doubt: where two models, trained on other examples, predict different classes; None if
            there is one model only
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    high, high_error = _share(differs)
    # Without a second model only its distance from guessing speaks for the first.
    commonest = labels.bincount().max().item() / len(labels)
    skill = max(0.0, 1 - high / max(1 - commonest, 1 / len(labels)))
    surest = {
        share: surest_of_each_class(sureness, predicted, probs.shape[1], share)
        for share in (1.0, SUREST, SUREST / 2)
    }
    lows = []
    for rows in surest.values():
        seen, error = _share(differs[rows])
        low = skill * seen if in_doubt is None else seen - _share(in_doubt[rows])[0]
        lows.append(_End(min(low, high), error))
    point = surest_rate
    if in_doubt is not None:
        of_surest = max(0.0, surest_rate - _share(in_doubt[surest[SUREST]])[0] / 2)
        of_all = max(0.0, high - _share(in_doubt)[0] / 2)
        point = (of_surest + of_all) / 2
    least = max(0.0, min(end.share for end in lows))
    return Identification(lows, high, high_error, min(max(point, least), high))


def _share(is_true: Bool[Tensor, " n"]) -> tuple[float, float]:
    """Return a share and its standard error, which is positive also where none or all are true."""
    n, count = len(is_true), int(is_true.sum())
    share = count / n
    cautious = (count + 1) / (n + 2)
    return share, math.sqrt(cautious * (1 - cautious) / n)


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
