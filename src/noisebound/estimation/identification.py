"""The noise rates that labels and out-of-fold predictions allow: an interval and a point estimate.

A label differs from the prediction because the label is wrong, or because the prediction is wrong.
The share of labels that differ is the upper end: better predictions would not differ more often.
Where a model is surest it is hardly ever wrong, so the share that differs there is the lower end.
If the model is overconfident, two models that were trained on different examples disagree. The
share in which they disagree is subtracted from the lower end.

If noise is independent of difficulty, the rate among the surest examples is right. If noise grows
with difficulty, the rate among all examples is closer. When two similar models disagree, each is
wrong in about half of the cases, so half of that share is subtracted from both rates. Labels do not
show which of the two rates is right, so the point estimate is midway between them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.estimation.predictions import Labels
from noisebound.estimation.transitions import SUREST, surest_of_each_class


@dataclass(frozen=True)
class Identification:
    """The rates that the labels allow, before sampling error is added.

    Args:
        lows: lower ends and their standard errors, from all examples, the surest and the very
            surest; the lowest counts
        high: share of the labels that differ from predictions
        high_error: standard error of ``high``
        point: the point estimate
    """

    lows: Sequence[tuple[float, float]]
    high: float
    high_error: float
    point: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval with sampling error, at a confidence in ``(0, 1)``."""
        from scipy.special import ndtri  # takes longer to import than all of noisebound

        reach = float(ndtri((1 + confidence) / 2))
        low = min(share - reach * error for share, error in self.lows)
        return max(0.0, low), min(1.0, self.high + reach * self.high_error)

    @property
    def words(self) -> str:
        """The evidence for the interval and the point estimate, in sentences."""
        low = max(0.0, min(self.lows)[0])
        return (
            f"Labels differ from predictions in {self.high:.1%} of the examples. This is the upper "
            "limit, unless mistakes can be predicted from the inputs: predictions then repeat "
            f"them, and no method detects them. At least {low:.1%} are wrong, if predictions are "
            "right where they are surest and agree. The estimate lies between the rate among all "
            "examples and the rate among the surest ones. The latter is closer if labels are wrong "
            "as often on easy examples as on hard ones. Only checked labels can settle it."
        )


def identify(
    probs: Float[Tensor, "n classes"],
    labels: Labels,
    surest_rate: float,
    in_doubt: Bool[Tensor, " n"] | None = None,
) -> Identification:
    """Return the rates that labels and out-of-fold predictions allow.

    ``surest_rate`` is the rate among the surest examples, each class weighted by its share.
    ``in_doubt`` marks the examples for which two models predict different classes.
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    high, high_error = _share(differs)
    # A single model counts by its advantage over predicting the most frequent class.
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
    """Return a share and its standard error, which is positive even for shares of 0 and 1."""
    n, count = len(is_true), int(is_true.sum())
    share = count / n
    cautious = (count + 1) / (n + 2)
    return share, math.sqrt(cautious * (1 - cautious) / n)
