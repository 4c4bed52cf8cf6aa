"""The queue of a review, the likeliest wrong label first.

The order starts from the scores of the run's models and learns from decisions: labels move up if
others with the same label and suggestion were often wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.errors import InvalidValueError
from noisebound.estimation import Suspects
from noisebound.estimation.predictions import of_label
from noisebound.review.decisions import Decision, DecisionFile

LAST = 50
"""The number of recent decisions in the share of wrong labels."""

WORTH = 0.1
"""The share of wrong labels below which checking no longer pays: one in ten."""

IS_SUSPECT = 0.5
"""A label is a suspect if its probability of being wrong is higher."""

_LEAST_PROBABILITY = 1e-9  # log-odds of 20: no model knows more
_LEARNS_EVERY = 25  # decisions; in between, the order is stable for all windows
_SHRINKAGE = 3.0  # of a pair's offset, in decisions; heuristic
_SLOPE_SHRINKAGE = 10.0  # heuristic
_SLOPES = (0.05, 3.0)  # the least and the greatest slope
_ROUNDS = 8  # of Newton's method, coordinate by coordinate
_LEAST = 1e-9  # curvature


@dataclass(frozen=True)
class Suspect:
    """A label that may be wrong."""

    position: int  # of the example, among the training examples
    label: str  # in the data
    suggested: str  # the likeliest other class
    probability: float  # that the label is wrong


@dataclass(frozen=True)
class ConfusedPair:
    """Undecided suspects with the same label and the same suggestion."""

    label: str
    suggested: str
    waiting: int  # their number
    expected_wrong: float  # the expected number of wrong labels among them


class ReviewQueue:
    """The undecided labels, the one most worth checking first.

    It follows decisions of other processes. The probabilities of the observed labels improve the
    order.
    """

    def __init__(
        self,
        suspects: Suspects,
        decisions: DecisionFile,
        probs: Float64[Tensor, "n classes"] | None = None,
    ) -> None:
        if suspects.suggested is None:
            raise InvalidValueError("a review needs suggested labels, and these suspects have none")
        self.decisions, self.data = decisions, decisions.data
        self.suggested: Int64[Tensor, " n"] = suspects.suggested
        self.probability: Float64[Tensor, " n"] = suspects.probability
        self._score = suspects.score
        if probs is not None:  # they make other mistakes than the suspects, so the mean is better
            surprise = -of_label(probs, self.data.labels).logit(eps=_LEAST_PROBABILITY)
            self._score = (suspects.score + surprise) / 2
        self._ranked_by = -1
        self._ranking = suspects.ranking

    def __len__(self) -> int:
        return len(self.data) - len(self.decisions.refresh())

    def next(
        self, count: int = 1, *, label: str | None = None, suggested: str | None = None
    ) -> list[Suspect]:
        """Return up to ``count`` of the :meth:`positions`, as suspects."""
        found = self.positions(label=label, suggested=suggested)[:count]
        return [self.suspect(position) for position in found.tolist()]

    def positions(
        self, *, label: str | None = None, suggested: str | None = None
    ) -> Int64[Tensor, " m"]:
        """Return the positions of the undecided labels, in order.

        With ``label``, only labels of this class; with ``suggested``, only those for which this
        class is suggested.
        """
        ranking = self._learned_ranking()
        keep = self._waits(ranking)
        for name, classes in ((label, self.data.labels), (suggested, self.suggested)):
            if name is not None:
                keep &= classes[ranking] == self.data.class_index(name)
        return ranking[keep]

    def suspects(self) -> Int64[Tensor, " m"]:
        """Return those of :meth:`positions` that are more likely wrong than right."""
        waiting = self.positions()
        return waiting[self.probability[waiting] > IS_SUSPECT]

    def suspect(self, position: int) -> Suspect:
        self.data.check_position(position)
        return Suspect(
            position,
            self.data.given(position),
            self.data.class_names[int(self.suggested[position])],
            float(self.probability[position]),
        )

    def pairs(self, most: int = 20) -> list[ConfusedPair]:
        """Return the confused pairs, the one with the most expected wrong labels first."""
        waiting, names = self.suspects(), self.data.class_names
        cells = self.data.labels[waiting] * len(names) + self.suggested[waiting]
        distinct, place, counts = torch.unique(cells, return_inverse=True, return_counts=True)
        expected = place.bincount(self.probability[waiting], minlength=len(distinct))
        order = expected.argsort(descending=True, stable=True)[:most].tolist()
        pairs = [(each, *divmod(int(distinct[each]), len(names))) for each in order]
        return [
            ConfusedPair(names[label], names[other], int(counts[each]), float(expected[each]))
            for each, label, other in pairs
        ]

    @property
    def last_decisions(self) -> list[Decision]:
        """The last decisions of the review that settled a label, at most fifty."""
        made = self.decisions.refresh().history
        return [each for each in made if each.where == "review" and each.is_trusted][-LAST:]

    @property
    def share_wrong(self) -> float | None:
        """The share of wrong labels among the last fifty decisions, once there are any."""
        last = self.last_decisions
        return sum(each.verdict == "wrong" for each in last) / len(last) if last else None

    @property
    def pays(self) -> bool:
        """True while at least one label in ten is wrong.

        The last fifty decisions count; before there are fifty, the probabilities of the next fifty.
        """
        upcoming = self.positions()[:LAST]
        if not len(upcoming):
            return False
        if len(self.last_decisions) < LAST:
            return bool(self.probability[upcoming].mean() >= WORTH)
        return (self.share_wrong or 0.0) >= WORTH

    def look_alikes(
        self, position: int, nearest: Sequence[int] | Int64[Tensor, " m"], most: int = 24
    ) -> list[Suspect]:
        """Return a suspect and undecided examples like it, with the same label and suggestion.

        ``nearest`` are the positions of other examples, the most similar first.
        """
        near = torch.as_tensor(nearest, dtype=torch.long)
        near = near[near != position]
        alike = self._waits(near)
        for classes in (self.data.labels, self.suggested):
            alike &= classes[near] == classes[position]
        return [self.suspect(each) for each in [position, *near[alike][: most - 1].tolist()]]

    def _learned_ranking(self) -> Int64[Tensor, " m"]:
        """Return all positions, in the order learned from the decisions so far."""
        settled = [each for each in self.decisions.refresh().history if each.is_trusted]
        count = len(settled) // _LEARNS_EVERY * _LEARNS_EVERY
        if count != self._ranked_by:
            latest = {each.position: each.verdict == "wrong" for each in settled[:count]}
            pair = self.data.labels * len(self.data.class_names) + self.suggested
            decided = torch.tensor(list(latest), dtype=torch.long)
            was_wrong = torch.tensor(list(latest.values()), dtype=torch.bool)
            score = _learned_scores(self._score, pair, decided, was_wrong)
            self._ranking, self._ranked_by = score.argsort(descending=True, stable=True), count
        return self._ranking

    def _waits(self, positions: Int64[Tensor, " m"]) -> Bool[Tensor, " m"]:
        decided = torch.zeros(len(self.data), dtype=torch.bool)
        decided[[each.position for each in self.decisions.refresh()]] = True
        return ~decided[positions]


def _learned_scores(
    score: Float64[Tensor, " n"],
    pair: Int64[Tensor, " n"],
    decided: Int64[Tensor, " m"],
    was_wrong: Bool[Tensor, " m"],
) -> Float64[Tensor, " n"]:
    """Return scores with an offset ``o`` for each pair of label and suggestion.

    The offsets come from a logistic regression of the verdicts on ``a score + b + o[pair]``. With
    few decisions, the offsets shrink towards zero and the slope ``a`` towards one.
    """
    if not len(decided):
        return score
    distinct, place = torch.unique(pair, return_inverse=True)
    pairs, known, verdicts = place[decided], score[decided], was_wrong.double()
    offsets = torch.zeros(len(distinct), dtype=torch.float64)
    common, slope = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def derivatives() -> tuple[Tensor, Tensor]:
        """Return the gradient and the negative curvature of each verdict's log-likelihood."""
        expected = (slope * known + common + offsets[pairs]).sigmoid()
        return verdicts - expected, expected * (1 - expected) + _LEAST

    for _ in range(_ROUNDS):
        gradient, curvature = derivatives()
        common = common + gradient.sum() / (curvature.sum() + _LEAST)
        gradient, curvature = derivatives()
        pull = _SLOPE_SHRINKAGE * (slope - 1)
        step = (gradient @ known - pull) / (curvature @ known**2 + _SLOPE_SHRINKAGE)
        slope = (slope + step).clamp(*_SLOPES)
        gradient, curvature = derivatives()
        gradients = torch.zeros_like(offsets).index_add_(0, pairs, gradient) - _SHRINKAGE * offsets
        curvatures = torch.zeros_like(offsets).index_add_(0, pairs, curvature) + _SHRINKAGE
        offsets = offsets + gradients / curvatures
    return slope * score + offsets[place]
