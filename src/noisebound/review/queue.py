"""The suspects in the order in which checking them brings most: wrong labels found per look.

The likeliest wrong label comes first, by what the run's models say and by what decisions have told
since of the classes that are taken for each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.checks import check_within
from noisebound.errors import InvalidValueError
from noisebound.estimation import Suspects
from noisebound.review.decisions import Decision, DecisionFile
from noisebound.review.learned_order import learned_scores

LAST = 50
"""How many decisions the share of wrong labels is counted over."""

WORTH = 0.1
"""The share of wrong labels below which checking no longer pays: ten looks for one wrong label."""

_LEARNS_EVERY = 25
"""After so many decisions the order is made anew: all windows see the same, and it holds still."""


@dataclass(frozen=True)
class Suspect:
    """A label that is waiting to be checked.

    Args:
        position: the example's position among the training examples
        label: the label that the data has
        suggested: the likeliest other class
        probability: the probability that the label is wrong
    """

    position: int
    label: str
    suggested: str
    probability: float


@dataclass(frozen=True)
class ConfusedPair:
    """A class that is taken for another.

    Args:
        label: the label that examples carry
        suggested: the class that is likelier
        waiting: how many suspects of this pair are not decided yet
        expected_wrong: how many of them are probably wrong
    """

    label: str
    suggested: str
    waiting: int
    expected_wrong: float


class ReviewQueue:
    """The labels that nobody has decided about, the one most worth a look first.

    Args:
        suspects: how suspect each label is, with suggestions
        decisions: what was decided; the queue follows what any process adds to it
        least: the least probability of being wrong with which a label is a suspect at all
        surprise: the log-odds that an example has another label than it has, by predictions of
            the observed label, which suppose nothing of the noise; None to go by `suspects` alone
    """

    def __init__(
        self,
        suspects: Suspects,
        decisions: DecisionFile,
        least: float = 0.0,
        surprise: Float64[Tensor, " n"] | None = None,
    ) -> None:
        if suspects.suggested is None:
            raise InvalidValueError("a review needs suggested labels, and these suspects have none")
        self.decisions, self.data = decisions, decisions.data
        self.least = check_within("least", least, 0.0, 1.0, open_at_low=False)
        self.suggested: Int64[Tensor, " n"] = suspects.suggested
        self.probability: Float64[Tensor, " n"] = suspects.probability
        self._score = suspects.score
        if surprise is not None:  # what supposes nothing is wrong in other ways: the mean is better
            self._score = (suspects.score + surprise) / 2
        self._is_suspect = self.probability >= self.least
        self._ranked_by = -1
        self._ranking = suspects.ranking

    def __len__(self) -> int:
        """The number of suspects that wait."""
        return int(self._waits(self._is_suspect.nonzero().squeeze(1)).sum())

    def next(
        self,
        count: int = 1,
        *,
        label: str | None = None,
        suggested: str | None = None,
        skip: int = 0,
    ) -> list[Suspect]:
        """Return the next suspects that nobody has decided about.

        Args:
            count: at most how many
            label: only those that carry this label; None for all
            suggested: only those that should probably be of this class; None for all
            skip: how many to pass over, to look further down the queue
        """
        found = self.positions(label=label, suggested=suggested)[skip : skip + count]
        return [self.suspect(position) for position in found.tolist()]

    def positions(
        self, *, label: str | None = None, suggested: str | None = None
    ) -> Int64[Tensor, " m"]:
        """Return the positions of the suspects that wait, in order; filters as in :meth:`next`."""
        ranking = self._learned_ranking()
        keep = self._waits(ranking)
        for name, classes in ((label, self.data.labels), (suggested, self.suggested)):
            if name is not None:
                keep &= classes[ranking] == self.data.class_index(name)
        return ranking[keep]

    def suspect(self, position: int) -> Suspect:
        """Return what is known of one example, whether it waits or not."""
        self.data.check_position(position)
        return Suspect(
            position,
            self.data.given(position),
            self.data.class_names[int(self.suggested[position])],
            float(self.probability[position]),
        )

    def pairs(self, most: int = 20) -> list[ConfusedPair]:
        """Return the pairs of label and suggestion with the most probably wrong labels."""
        waiting, names = self.positions(), self.data.class_names
        cells = self.data.labels[waiting] * len(names) + self.suggested[waiting]
        distinct, place, counts = torch.unique(cells, return_inverse=True, return_counts=True)
        expected = torch.zeros(len(distinct), dtype=torch.float64)
        expected.index_add_(0, place, self.probability[waiting])
        order = expected.argsort(descending=True, stable=True)[:most].tolist()
        return [
            ConfusedPair(
                names[int(distinct[each]) // len(names)],
                names[int(distinct[each]) % len(names)],
                int(counts[each]),
                float(expected[each]),
            )
            for each in order
        ]

    @property
    def last_decisions(self) -> list[Decision]:
        """The last decisions of the review that told right from wrong, fifty at most."""
        made = self.decisions.refresh().history
        told = [each for each in made if each.where == "review" and each.is_trusted]
        return told[-LAST:]

    @property
    def share_wrong(self) -> float | None:
        """The share of wrong labels among the last fifty decisions; None before the first."""
        last = self.last_decisions
        return sum(each.verdict == "wrong" for each in last) / len(last) if last else None

    @property
    def expected_share(self) -> float:
        """The share of the next fifty labels that is probably wrong, by the suspicions alone."""
        upcoming = self.probability[self.positions()[:LAST]]
        return float(upcoming.mean()) if len(upcoming) else 0.0

    @property
    def pays(self) -> bool:
        """True while checking is likely to find a wrong label at least once in ten looks.

        What the last fifty decisions found decides, once there are as many: the suspicions may be
        wrong. Before that the suspicions decide.
        """
        last = self.last_decisions
        if not len(self):
            return False
        if len(last) < LAST:
            return self.expected_share >= WORTH
        return sum(each.verdict == "wrong" for each in last) / LAST >= WORTH

    def look_alikes(
        self, position: int, nearest: Sequence[int] | Int64[Tensor, " m"], most: int = 24
    ) -> list[Suspect]:
        """Return a suspect and others like it, to be decided at once: same label and suggestion.

        Args:
            position: the suspect's
            nearest: the positions of other examples, the most similar first
            most: how many to return, the suspect included
        """
        near = torch.as_tensor(nearest, dtype=torch.long)
        near = near[near != position]
        alike = (self.data.labels[near] == self.data.labels[position]) & (
            self.suggested[near] == self.suggested[position]
        )
        alike &= self._waits(near) & (self.probability[near] >= self.least)
        return [self.suspect(each) for each in [position, *near[alike][: most - 1].tolist()]]

    def _learned_ranking(self) -> Int64[Tensor, " m"]:
        """Return the positions of all suspects in order, by what was decided so far."""
        told = [each for each in self.decisions.refresh().history if each.is_trusted]
        count = len(told) // _LEARNS_EVERY * _LEARNS_EVERY
        if count != self._ranked_by:
            latest = {each.position: each.verdict == "wrong" for each in told[:count]}
            pair = self.data.labels * len(self.data.class_names) + self.suggested
            decided = torch.tensor(list(latest), dtype=torch.long)
            was_wrong = torch.tensor(list(latest.values()), dtype=torch.bool)
            score = learned_scores(self._score, pair, decided, was_wrong)
            ranking = score.argsort(descending=True, stable=True)
            self._ranking, self._ranked_by = ranking[self._is_suspect[ranking]], count
        return self._ranking

    def _waits(self, positions: Int64[Tensor, " m"]) -> Bool[Tensor, " m"]:
        decided = torch.zeros(len(self.data), dtype=torch.bool)
        decided[[each.position for each in self.decisions.refresh()]] = True
        return ~decided[positions]
