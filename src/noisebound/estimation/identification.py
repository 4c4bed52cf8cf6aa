"""The noise rates that labels and out-of-fold predictions allow: two ends and a point between.

Labels differ from predictions because labels are wrong, or because predictions are. The share that
differs is an upper end: better predictions would not differ more often. Where a model is surest it
is hardly ever wrong, so the share that differs there is a lower end, unless the model is confident
without reason. In that case two models that were trained on different examples differ from each
other, and the lower end falls by the share in which they do.

Noise that is independent of difficulty shows where the model is surest; noise that grows with
difficulty shows among all examples. Two similar models err in about half of the cases in which they
differ, so half of that share is subtracted from both rates. The point is midway between them,
because labels do not show which of the two is right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int64
from torch import Tensor

from noisebound.estimation.transitions import SUREST, surest_of_each_class


@dataclass(frozen=True)
class Identification:
    """The rates that the labels allow, before sampling error is added.

    Args:
        lows: lower ends and their standard errors, by all examples, the surest and the very surest;
            the lowest counts
        high: how often labels differ from predictions
        high_error: its standard error
        point: a rate in between
    """

    lows: Sequence[tuple[float, float]]
    high: float
    high_error: float
    point: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two ends with sampling error added, at a confidence in ``(0, 1)``."""
        from scipy.special import ndtri  # takes longer to import than all of noisebound

        reach = float(ndtri((1 + confidence) / 2))
        low = min(share - reach * error for share, error in self.lows)
        return max(0.0, low), min(1.0, self.high + reach * self.high_error)

    @property
    def words(self) -> str:
        """The evidence for both ends and the point, in sentences."""
        low = max(0.0, min(self.lows)[0])
        return (
            f"Labels differ from predictions in {self.high:.1%} of the examples. No more are "
            "wrong, unless mistakes can be predicted from the inputs: then predictions repeat "
            f"them, and no method sees them. At least {low:.1%} are wrong, if predictions are "
            "right where they are surest and agree. The estimate lies between the rate among all "
            "examples and the rate among the surest ones, which is closer to the truth if labels "
            "are wrong as often on easy examples as on hard ones. Only checked labels can settle "
            "it."
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
        in_doubt: where two models, trained on other examples, predict different classes; not given
            for one model
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    high, high_error = _share(differs)
    # With one model, only its advantage over the commonest class supports it.
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
        lows.append((min(low, high), error))
    point = surest_rate
    if in_doubt is not None:
        of_surest = max(0.0, surest_rate - _share(in_doubt[surest[SUREST]])[0] / 2)
        of_all = max(0.0, high - _share(in_doubt)[0] / 2)
        point = (of_surest + of_all) / 2
    least = max(0.0, min(lows)[0])
    return Identification(lows, high, high_error, min(max(point, least), high))


def _share(is_true: Bool[Tensor, " n"]) -> tuple[float, float]:
    """Return a share and its standard error, which is positive even if none or all are true."""
    n, count = len(is_true), int(is_true.sum())
    share = count / n
    cautious = (count + 1) / (n + 2)
    return share, math.sqrt(cautious * (1 - cautious) / n)
