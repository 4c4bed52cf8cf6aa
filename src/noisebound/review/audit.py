"""An audit: people check a random sample of labels, which gives the noise rate of all labels.

The sample is stratified by suspicion. Half of it is spread evenly, and half goes to uncertain
labels (Neyman allocation). Each answer is weighted by the number of examples that it represents.
Good suspicions reduce the variance. With bad ones, no answer represents more than twice as many
examples as in an even sample. The order is random within strata, so an audit may end at any time.
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.checks import check_count
from noisebound.errors import InvalidValueError
from noisebound.estimation import NoiseEstimate, Suspects, estimate_noise
from noisebound.estimation.trusted import FEWEST_TRUSTED, Trusted, labels_to_check
from noisebound.review.decisions import Decision, DecisionDetails, DecisionFile, Verdict

_STRATA = 25  # four answers each out of a hundred; heuristic
_SEED = 9_218_403  # differs from the seeds of validation and folds: samples must not coincide
_BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the reliability table
_EXPLAINED = 0.005  # the smallest difference of two shares that needs an explanation
_UNKNOWN_RATE = 0.5  # the rate that needs the most labels


@dataclass(frozen=True)
class Confusion:
    """The number of checked examples with one label that belong to another class."""

    label: str
    true: str
    count: int


@dataclass(frozen=True)
class Reliability:
    """Calibration of the probabilities in one bin."""

    low: float  # the lower edge of the bin
    high: float  # the upper edge
    checked: int  # the number of checked labels in the bin
    predicted: float  # their mean probability of being wrong
    found: float  # the share found wrong


@dataclass(frozen=True, eq=False)
class AuditResult:
    """The result of an audit: numbers of examples, and the noise rate."""

    examples: int
    answered: int  # labels found right or wrong
    wrong: int
    undecided: int  # unsure or unusable examples
    estimate: NoiseEstimate | None  # the noise rate with its 95 % interval, from ten answers on
    confusions: tuple[Confusion, ...]  # the confused pairs of classes, the most frequent first
    reliability: tuple[Reliability, ...]  # the calibration of the suspects' probabilities
    run_rate: float | None  # the run's own estimate, if it has one

    def size_for(self, precision: float) -> int:
        """Return the approximate number of labels to check for a rate to ``± precision``.

        Before ten answers, this follows from the run's estimate of the rate; then from the answers.
        """
        if self.estimate is None:
            rate = _UNKNOWN_RATE if self.run_rate is None else self.run_rate
            return labels_to_check(rate, self.examples, precision)
        low, high = self.estimate.interval
        reach = (high - low) / 2
        return min(self.examples, math.ceil(self.answered * (reach / precision) ** 2))

    def more_for(self, precision: float) -> int:
        """Return the number of further answers needed for a rate to ``± precision``."""
        return max(0, self.size_for(precision) - self.answered)

    @property
    def words(self) -> str:
        if self.estimate is None:
            missing = FEWEST_TRUSTED - self.answered
            return f"{missing} more answers are needed to estimate the noise rate."
        text = (
            f"{self.wrong} of {self.answered} checked labels are wrong. The estimate for all "
            f"labels is {self.estimate.summary}."
        )
        if abs(self.wrong / self.answered - self.estimate.noise_rate) >= _EXPLAINED:
            text += (
                " The two shares differ because uncertain labels are checked more often than "
                "others: each answer counts for the labels that it represents."
            )
        if self.run_rate is None:
            return text
        low, high = self.estimate.interval
        verdict = "which agrees" if low <= self.run_rate <= high else "which is corrected"
        return f"{text} The run's own estimate is {self.run_rate:.1%}, {verdict}."


class Audit:
    """A random sample of a run's labels, and the result of its answers.

    The probabilities of the observed labels should be out-of-fold. Decisions of a review about
    examples of the sample count as answers too.
    """

    def __init__(
        self,
        probs: Float64[Tensor, "n classes"],
        suspects: Suspects,
        decisions: DecisionFile,
        run_rate: float | None = None,
        seed: int = 0,
    ) -> None:
        self.probs, self.decisions, self.data = probs, decisions, decisions.data
        self.probability = suspects.probability
        self._run_rate = run_rate
        self.order, self._stratum, self._sizes, self._quota = _draw(self.probability, seed)
        self._place = {position: place for place, position in enumerate(self.order.tolist())}

    def size_for(self, precision: float) -> int:
        return self.result().size_for(precision)

    def next(self, count: int = 1) -> list[int]:
        check_count("count", count)
        self.decisions.refresh()
        waiting = (place for place in self.order.tolist() if self.decisions.get(place) is None)
        return list(islice(waiting, count))

    def decide(
        self, position: int, verdict: Verdict, label: str | None = None, *, by: str | None = None
    ) -> Decision:
        """Write an answer to the disk, with the label's probability and the answer's weight."""
        details: DecisionDetails = {"by": by, "where": "audit"}
        details["probability"] = float(self.probability[position])
        details["stands_for"] = self.stands_for(position)
        return self.decisions.decide(position, verdict, label, **details)

    def stands_for(self, position: int) -> float:
        """Return the number of examples that an answer about this one represents."""
        stratum = int(self._stratum[self.data.check_position(position)])
        return float(self._sizes[stratum] / self._quota[stratum])

    @property
    def answers(self) -> list[Decision]:
        """The decisions about the examples that the audit has reached.

        A review decides about suspects because they are suspect. So its decisions count only for
        examples that the audit has reached.
        """
        audited = [each for each in self.decisions.refresh().history if each.where == "audit"]
        reached = max((self._place[each.position] for each in audited), default=-1)
        positions = self.order[: reached + 1].tolist()
        return [made for each in positions if (made := self.decisions.get(each)) is not None]

    def result(self) -> AuditResult:
        answers = self.answers
        settled = [each for each in answers if each.is_trusted]
        pairs = Counter(
            (self.data.given(each.position), each.label) for each in settled if each.label
        )
        return AuditResult(
            examples=len(self.data),
            answered=len(settled),
            wrong=sum(each.verdict == "wrong" for each in settled),
            undecided=len(answers) - len(settled),
            estimate=self._estimate(settled),
            confusions=tuple(Confusion(*pair, count) for pair, count in pairs.most_common()),
            reliability=self._reliability(settled),
            run_rate=self._run_rate,
        )

    def weights(self, settled: list[Decision]) -> Float64[Tensor, " m"]:
        """Return the number of examples that each answer represents.

        The answers in a stratum share its examples, and those of the strata without answers that
        are nearest to it.
        """
        stratum = self._stratum[[each.position for each in settled]]
        counts = stratum.bincount(minlength=len(self._sizes))
        seen = counts.nonzero().squeeze(1)
        every = torch.arange(len(self._sizes))
        nearest = (every[:, None] - seen).abs().argmin(1)
        sizes = torch.zeros(len(seen), dtype=torch.float64).index_add_(0, nearest, self._sizes)
        return sizes[nearest[stratum]] / counts[stratum]

    def _estimate(self, settled: list[Decision]) -> NoiseEstimate | None:
        if len(settled) < FEWEST_TRUSTED:
            return None
        positions = torch.tensor([each.position for each in settled])
        true_labels = self.decisions.corrected()[positions]
        trusted = Trusted(positions, true_labels, self.weights(settled), self.probability)
        return estimate_noise(self.probs, self.data.labels, trusted=trusted)

    def _reliability(self, settled: list[Decision]) -> tuple[Reliability, ...]:
        predicted = self.probability[[each.position for each in settled]]
        is_wrong = torch.tensor([each.verdict == "wrong" for each in settled]).double()
        rows = []
        for low, high in pairwise(_BINS):
            within = (low <= predicted) & ((predicted < high) | (high == 1.0))
            if within.any():
                means = predicted[within].mean().item(), is_wrong[within].mean().item()
                rows.append(Reliability(low, high, int(within.sum()), *means))
        return tuple(rows)


def _draw(
    probability: Float64[Tensor, " n"], seed: int
) -> tuple[Tensor, Tensor, Float64[Tensor, " strata"], Float64[Tensor, " strata"]]:
    """Return the order of the sample, each example's stratum, and the strata's sizes and quotas."""
    if not len(probability):
        raise InvalidValueError("there are no examples to audit")
    n = len(probability)
    uncertainty = (probability * (1 - probability)).sqrt()
    # Half of the sample is even, half by uncertainty; each part has the mean 1/2.
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
