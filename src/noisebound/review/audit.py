"""An audit: a random sample of labels is checked, and tells how many of all labels are wrong.

The examples are drawn from strata of similar suspicion, and each answer counts for the examples
that it stands for. Half of the sample is spread evenly, and half goes where the answer is less
certain by the suspicions (Neyman's allocation). So where the suspicions are right the rate varies
less, and where they are wrong no answer stands for more than twice as many examples as in an even
sample. The order is random within strata, so that an audit may end after any answer.
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.checks import check_count
from noisebound.errors import InvalidValueError
from noisebound.estimation import NoiseEstimate, Suspects, estimate_noise
from noisebound.estimation.trusted import FEWEST_TRUSTED, Trusted, labels_to_check
from noisebound.review.decisions import Decision, DecisionFile, Verdict

_STRATA = 25  # of as many answers each, so that a hundred answers are four in each: a choice
_SEED = 9_218_403  # apart from the seeds of validation and folds: samples must not coincide
_BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the table of how well probabilities hold
_UNKNOWN_RATE = 0.5  # the rate that needs the most labels


@dataclass(frozen=True)
class Confusion:
    """How often one class was found to be labeled as another.

    Args:
        label: the label that the examples carry
        true: the class that they are
        count: how many of the checked examples
    """

    label: str
    true: str
    count: int


@dataclass(frozen=True)
class Reliability:
    """How well the probabilities within a range held.

    Args:
        low: the least probability of the range
        high: the greatest
        checked: how many labels in the range were checked
        predicted: their mean probability of being wrong
        found: the share of them that was wrong
    """

    low: float
    high: float
    checked: int
    predicted: float
    found: float


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What the answers of an audit tell.

    Args:
        answered: how many labels were found right or wrong
        wrong: how many of them were wrong
        undecided: how many were left unsure or unusable
        estimate: the noise rate with its interval at 95 %; None below ten answers
        confusions: which classes are taken for which, the most frequent first
        reliability: how well the suspects' probabilities hold
        more_for_5: how many more answers it takes to know the rate to ±5 points
        more_for_3: likewise ±3 points
        run_rate: the run's own estimate; None if it has none
        run_interval: its interval
    """

    answered: int
    wrong: int
    undecided: int
    estimate: NoiseEstimate | None
    confusions: tuple[Confusion, ...]
    reliability: tuple[Reliability, ...]
    more_for_5: int
    more_for_3: int
    run_rate: float | None
    run_interval: tuple[float, float] | None

    @property
    def is_corrected(self) -> bool:
        """True if the run's own estimate lies outside the audit's interval."""
        if self.estimate is None or self.run_rate is None:
            return False
        low, high = self.estimate.interval
        return not low <= self.run_rate <= high

    @property
    def rate(self) -> float | None:
        """The noise rate by the audit; before ten answers the run's own."""
        return self.run_rate if self.estimate is None else self.estimate.noise_rate

    @property
    def words(self) -> str:
        """The result in sentences."""
        if self.estimate is None:
            missing = FEWEST_TRUSTED - self.answered
            return f"{missing} more answers are needed to estimate the noise rate."
        text = (
            f"{self.wrong} of {self.answered} checked labels are wrong. The estimate for all "
            f"labels is {self.estimate.summary}."
        )
        if self.run_rate is None:
            return text
        verdict = "which is corrected" if self.is_corrected else "which agrees"
        return f"{text} The run's own estimate is {self.run_rate:.1%}, {verdict}."


class Audit:
    """A random sample of a run's labels, and what its answers tell.

    Args:
        probs: the probabilities of the observed label for every example, out-of-fold where possible
        suspects: how suspect each label is
        decisions: the answers; those given elsewhere to an example of the sample count too
        noise: the run's own estimate of the rate and its interval; None if there is none
        seed: another seed draws another sample
    """

    def __init__(
        self,
        probs: Float64[Tensor, "n classes"],
        suspects: Suspects,
        decisions: DecisionFile,
        noise: tuple[float, tuple[float, float] | None] | None = None,
        seed: int = 0,
    ) -> None:
        self.probs, self.decisions, self.data = probs, decisions, decisions.data
        self.probability = suspects.probability
        self.suggested = suspects.suggested
        self._run = noise
        self.order, self._stratum, self._sizes, self._quota = _draw(self.probability, seed)
        self._place = {position: place for place, position in enumerate(self.order.tolist())}

    def size_for(self, precision: float) -> int:
        """Return about how many labels to check to know the rate to ``± precision``.

        Before ten answers this follows from the run's estimate of the rate, afterwards from the
        answers.
        """
        told = [each for each in self.answers if each.is_trusted]
        return self._size_for(precision, told, self._estimate(told))

    def _size_for(
        self, precision: float, told: list[Decision], estimate: NoiseEstimate | None
    ) -> int:
        if estimate is None:
            rate = _UNKNOWN_RATE if self._run is None else self._run[0]
            return labels_to_check(rate, len(self.data), precision)
        low, high = estimate.interval
        reach = (high - low) / 2
        return min(len(self.data), math.ceil(len(told) * (reach / precision) ** 2))

    def next(self, count: int = 1) -> list[int]:
        """Return the positions of the next examples to check."""
        check_count("count", count)
        found: list[int] = []
        self.decisions.refresh()
        for position in self.order.tolist():
            if self.decisions.get(position) is None:
                found.append(position)
                if len(found) == count:
                    break
        return found

    def decide(
        self, position: int, verdict: Verdict, label: str | None = None, *, by: str | None = None
    ) -> Decision:
        """Write an answer to the disk, with how suspect the label was and what it stands for."""
        return self.decisions.decide(
            position,
            verdict,
            label,
            by=by,
            where="audit",
            probability=float(self.probability[position]),
            stands_for=self.stands_for(position),
        )

    def stands_for(self, position: int) -> float:
        """Return how many examples an answer about this one speaks for."""
        stratum = int(self._stratum[self.data.check_position(position)])
        return float(self._sizes[stratum] / self._quota[stratum])

    @property
    def answers(self) -> list[Decision]:
        """The decisions about the sample, as far as the audit has come.

        Suspects are decided about because they are suspect. So what was decided elsewhere counts
        only for examples that the audit has come to.
        """
        reached = max(
            (
                self._place[each.position]
                for each in self.decisions.refresh().history
                if each.where == "audit" and each.position in self._place
            ),
            default=-1,
        )
        positions = self.order[: reached + 1].tolist()
        return [made for each in positions if (made := self.decisions.get(each)) is not None]

    def result(self) -> AuditResult:
        """Return what the answers tell so far."""
        answers = self.answers
        told = [each for each in answers if each.is_trusted]
        estimate = self._estimate(told)
        run_rate, run_interval = self._run if self._run is not None else (None, None)
        return AuditResult(
            answered=len(told),
            wrong=sum(each.verdict == "wrong" for each in told),
            undecided=len(answers) - len(told),
            estimate=estimate,
            confusions=self._confusions(told),
            reliability=self._reliability(told),
            more_for_5=max(0, self._size_for(0.05, told, estimate) - len(told)),
            more_for_3=max(0, self._size_for(0.03, told, estimate) - len(told)),
            run_rate=run_rate,
            run_interval=run_interval,
        )

    def weights(self, told: list[Decision]) -> Float64[Tensor, " m"]:
        """Return how many examples each answer stands for.

        The answers of a stratum share its examples. A stratum without answers goes to the nearest
        one that has some.
        """
        stratum = self._stratum[[each.position for each in told]]
        counts = stratum.bincount(minlength=len(self._sizes))
        seen = counts.nonzero().squeeze(1)
        every = torch.arange(len(self._sizes))
        nearest = (every[:, None] - seen).abs().argmin(1)
        sizes = torch.zeros(len(seen), dtype=torch.float64).index_add_(0, nearest, self._sizes)
        return sizes[nearest[stratum]] / counts[stratum]

    def _estimate(self, told: list[Decision]) -> NoiseEstimate | None:
        """Return what the answers tell of all labels; None if there are too few."""
        if len(told) < FEWEST_TRUSTED:
            return None
        positions = torch.tensor([each.position for each in told])
        true_labels = torch.tensor([self._true_label(each) for each in told])
        trusted = Trusted(positions, true_labels, self.weights(told), self.probability)
        return estimate_noise(self.probs, self.data.labels, trusted=trusted)

    def _true_label(self, decision: Decision) -> int:
        if decision.label is None:
            return int(self.data.labels[decision.position])
        return self.data.class_index(decision.label)

    def _confusions(self, told: list[Decision]) -> tuple[Confusion, ...]:
        pairs = Counter(
            (self.data.given(each.position), each.label) for each in told if each.label is not None
        )
        return tuple(Confusion(*pair, count) for pair, count in pairs.most_common())

    def _reliability(self, told: list[Decision]) -> tuple[Reliability, ...]:
        rows = []
        for low, high in pairwise(_BINS):
            within = [
                each
                for each in told
                if low <= self.probability[each.position] < high
                or (high == 1.0 and self.probability[each.position] == 1.0)
            ]
            if within:
                predicted = sum(float(self.probability[each.position]) for each in within)
                wrong = sum(each.verdict == "wrong" for each in within)
                count = len(within)
                rows.append(Reliability(low, high, count, predicted / count, wrong / count))
        return tuple(rows)


def _draw(
    probability: Float64[Tensor, " n"], seed: int
) -> tuple[Tensor, Tensor, Float64[Tensor, " strata"], Float64[Tensor, " strata"]]:
    """Return an order to check in, each example's stratum, and the strata's sizes and quotas."""
    if not len(probability):
        raise InvalidValueError("there are no examples to audit")
    n = len(probability)
    uncertainty = (probability * (1 - probability)).sqrt()
    # Half the sample evenly, half by uncertainty; each part has the mean 1/2.
    chance = 0.5 + 0.5 * uncertainty / uncertainty.mean().clamp(min=torch.finfo(torch.float64).tiny)
    by_suspicion = probability.argsort(stable=True)
    reached = chance[by_suspicion].cumsum(0) - chance[by_suspicion] / 2
    cuts = (reached * (min(_STRATA, n) / chance.sum())).long()
    stratum = torch.empty(n, dtype=torch.long)
    stratum[by_suspicion] = torch.unique_consecutive(cuts, return_inverse=True)[1]
    count = int(stratum.max()) + 1
    sizes = stratum.bincount(minlength=count).double()
    quota = torch.zeros(count, dtype=torch.float64).index_add_(0, stratum, chance)
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(_SEED + seed))
    order = shuffled[stratum[shuffled].argsort(stable=True)]  # stratum after stratum
    starts = (sizes.cumsum(0) - sizes).long()
    number = torch.arange(n) - starts[stratum[order]]  # within the stratum
    # The k-th example of a stratum is due when the sample has (k + 1/2) times its share.
    due = (number.double() + 0.5) / quota[stratum[order]]
    return order[due.argsort(stable=True)], stratum, sizes, quota
