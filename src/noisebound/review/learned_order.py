"""An order that learns from decisions: classes that were found confused come sooner.

The log-odds that a label is wrong know the noise only as far as it was estimated. Each decision
tells more about its pair of label and suggestion. So every pair gets an offset ``o`` by a logistic
regression of the verdicts on ``a score + b + o[pair]``. The offsets are shrunk towards zero and the
slope ``a`` towards one where decisions are few.
"""

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

_SHRINKAGE = 3.0  # of an offset, in decisions of which nothing was known: a choice
_SLOPE_SHRINKAGE = 10.0  # of the slope, likewise
_SLOPES = (0.05, 3.0)  # the least and the greatest
_ROUNDS = 8  # of Newton's method, coordinate after coordinate
_LEAST = 1e-9


def learned_scores(
    score: Float64[Tensor, " n"],
    pair: Int64[Tensor, " n"],
    decided: Int64[Tensor, " m"],
    was_wrong: Bool[Tensor, " m"],
) -> Float64[Tensor, " n"]:
    """Return the scores with what decisions tell of their pairs added.

    Args:
        score: the log-odds that each label is wrong
        pair: which pair of label and suggestion each example has, as a number
        decided: the positions of the examples that were found right or wrong
        was_wrong: which of those were wrong
    """
    if not len(decided):
        return score
    distinct, place = torch.unique(pair, return_inverse=True)
    told, known, verdicts = place[decided], score[decided], was_wrong.double()
    offsets = torch.zeros(len(distinct), dtype=torch.float64)
    common, slope = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def derivatives() -> tuple[Tensor, Tensor]:
        return _derivatives(slope * known + common + offsets[told], verdicts)

    for _ in range(_ROUNDS):
        gain, bend = derivatives()
        common = common + gain.sum() / (bend.sum() + _LEAST)
        gain, bend = derivatives()
        pull = _SLOPE_SHRINKAGE * (slope - 1)
        step = (gain @ known - pull) / (bend @ known**2 + _SLOPE_SHRINKAGE)
        slope = (slope + step).clamp(*_SLOPES)
        gain, bend = derivatives()
        gains = torch.zeros_like(offsets).index_add_(0, told, gain) - _SHRINKAGE * offsets
        bends = torch.zeros_like(offsets).index_add_(0, told, bend) + _SHRINKAGE
        offsets = offsets + gains / bends
    return slope * score + offsets[place]


def _derivatives(log_odds: Tensor, verdicts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slope and the negative curvature of the log-likelihood of each verdict."""
    expected = log_odds.sigmoid()
    return verdicts - expected, expected * (1 - expected) + _LEAST
