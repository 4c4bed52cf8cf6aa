"""The results of trials: who is ahead, who leaves the race, and who is averaged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from noisebound.estimation import OutOfFold
from noisebound.learners.network import judged_epochs
from noisebound.search.cross_fit import best_stage
from noisebound.search.evidence import Evidence, evidence_of, is_behind
from noisebound.search.problem import Problem
from noisebound.search.recipes import Candidate
from noisebound.training.config import LearnerName

PLAIN = Candidate("network", "plain")

FEW = 600
"""The most examples that are few. Among so few, the suspects of a trial are too poor to judge
whether dropping suspects helps, so ensembles have both (``benchmarks/rules.py``)."""

_FAR = 3.0
"""Standard errors behind the best after which a candidate gets no more trials. The best of several
is partly the luckiest, so this takes more than `CERTAIN`; heuristic."""

_AHEAD_ALONE = _FAR
"""Standard errors by which a recipe must be ahead of plain training if there is one learner only:
no other member of an ensemble makes up for a wrong choice then."""

_NEAR = 1.0  # the one-standard-error rule, in favor of larger ensembles


@dataclass(frozen=True, eq=False)
class Result:
    """The labels that a candidate predicted in each division, and where it stops."""

    candidate: Candidate
    hits: Bool[Tensor, "divisions n"] | Float[Tensor, "divisions n"]
    stage: int
    stops_early: bool

    def shares(self, divisions: int | None = None) -> Float64[Tensor, " n"]:
        """Return how often each label was predicted, in the first divisions or in all."""
        return self.hits[:divisions].double().mean(0)

    @property
    def mean(self) -> float:
        """The share of the labels that it predicted."""
        return self.shares().mean().item()


class Trials(dict[Candidate, list[OutOfFold]]):
    """The out-of-fold predictions of each candidate, by division.

    Args:
        problem: the examples that candidates are tried on, the learners, and how to train
        divisions: the number of divisions, if a candidate stays in the race
    """

    def __init__(self, problem: Problem, divisions: int) -> None:
        super().__init__()
        self.problem, self.divisions = problem, divisions
        self.labels = problem.data.train.labels

    def results(self) -> list[Result]:
        """Return what each candidate predicted; plain training to the last epoch comes first."""
        return [result for candidate in self for result in self.results_of(candidate)]

    def results_of(self, candidate: Candidate) -> list[Result]:
        """Return what a candidate predicted; a plain network also counts to its last epoch."""
        staged, stage = self._staged_hits(candidate), self.best_stage_of(candidate)
        hits = torch.stack([each.are_hits for each in self[candidate]])
        last = len(staged[0]) - 1
        stops_early = candidate.learner == "network" and stage < last
        found = Result(candidate, hits, stage, stops_early)
        if candidate != PLAIN:
            return [found]
        to_the_end = Result(candidate, torch.stack([each[-1] for each in staged]), last, False)
        return [to_the_end, found] if stops_early else [to_the_end]

    def result(self, candidate: Candidate) -> Result:
        """Return what a candidate predicted at its best stage."""
        return self.results_of(candidate)[-1]

    def best_stage_of(self, candidate: Candidate) -> int:
        """Return the stage at which a candidate predicts most labels, over all divisions."""
        return best_stage(torch.cat(self._staged_hits(candidate), dim=1))

    def _staged_hits(
        self, candidate: Candidate
    ) -> list[Bool[Tensor, "stages n"] | Float[Tensor, "stages n"]]:
        return [each.hits for each in self[candidate] if each.hits is not None]

    def evidence(self, result: Result) -> Evidence:
        """Return the evidence of a result; gains are over the candidate that was tried first."""
        plain = self.results_of(next(iter(self)))[0]
        both = min(len(result.hits), len(plain.hits))
        is_network = result.candidate.learner == "network"
        found = evidence_of(
            result.candidate,
            self.labels,
            result.shares(both),
            plain.shares(both),
            stage=result.stage,
            epochs=judged_epochs(self.problem.config.epochs)[result.stage] if is_network else 0,
            stops_early=result.stops_early,
            setting=self.problem.setting(result.candidate.learner, result.stage),
            counts_alike=self.problem.data.train.counts_alike,
        )
        # The gain is in the divisions of both, and the agreement in all of them.
        return replace(found, agreement=result.mean)

    def is_ahead(self, candidate: Candidate, other: Candidate) -> bool:
        """True if a candidate predicts more labels than another, in the divisions of both."""
        if not {candidate, other} <= self.keys():
            return candidate in self
        one, two = self.result(candidate), self.result(other)
        both = min(len(one.hits), len(two.hits))
        return bool((one.shares(both) - two.shares(both)).mean() > 0)

    def best_of_each(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return the best candidate of each learner, that of the most predicted labels first."""
        best: dict[LearnerName, Candidate] = {}
        for candidate in sorted(candidates, key=lambda each: -self.result(each).mean):
            best.setdefault(candidate.learner, candidate)
        return list(best.values())

    def in_the_race(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that are not clearly behind the best of all so far."""
        done = min((len(self[each]) for each in candidates), default=0)
        rivals = [self.result(each) for each in self if len(self[each]) >= done]
        fair = [each for each in rivals if not self.evidence(each).favors_common_labels]
        best = max(fair or rivals, key=lambda each: each.shares(done).mean().item())
        return [
            each
            for each in candidates
            if not is_behind(self.result(each).shares(), best.shares(done), _FAR)
        ]

    def members(self) -> tuple[tuple[Evidence, ...], float]:
        """Return the candidates whose mean predictions are best, and the agreement of that mean.

        The best of each learner join in the order of their agreement. The largest ensemble is
        chosen that chance may have put behind the best.
        """
        found = [self._best_of(learner) for learner in self.problem.learners]
        best = [each for each in found if each is not None] or self.results()[:1]
        best.sort(key=lambda each: -each.mean)
        size = min(self.problem.config.ensemble_size, len(best))
        shares = [self._shares_of_mean(best[:count]) for count in range(1, size + 1)]
        most = max(shares, key=lambda each: each.mean().item())
        near = [each for each in enumerate(shares, 1) if not is_behind(each[1], most, _NEAR)]
        count, _ = near[-1]
        members = self._with_both_label_uses(best[:count])
        return tuple(map(self.evidence, members)), self._shares_of_mean(members).mean().item()

    def _with_both_label_uses(self, members: Sequence[Result]) -> list[Result]:
        """Return the members, and the same learners on labels as given and without suspects.

        Trials cannot compare these two on a few examples: suspects that are found within half of
        them are much worse than those found among all.
        """
        found = {each.candidate: each for each in members}
        are_few = len(self.labels) <= FEW and self.problem.data.train.votes is None
        if are_few and len(self.problem.learners) > 1 and self.problem.config.ensemble_size > 1:
            for learner in [each.learner for each in found if each.learner != "network"]:
                for other in (Candidate(learner, "plain"), Candidate(learner, "dropped")):
                    if other in self:  # a quick search tries no recipes
                        found.setdefault(other, self.result(other))
        return list(found.values())

    def _shares_of_mean(self, members: Sequence[Result]) -> Float64[Tensor, " n"]:
        """Return how often the mean of some candidates predicted each label."""
        if len(members) == 1:
            return members[0].shares()
        means = self.mean_predictions([each.candidate for each in members])
        return torch.stack([each.are_hits for each in means]).double().mean(0)

    def _best_of(self, learner: LearnerName) -> Result | None:
        """Return the best candidate of a learner; of the only learner, it must be certain."""
        whole = [
            each
            for each in self.results()
            if each.candidate.learner == learner and len(each.hits) == self.divisions
        ]
        fair = (each for each in whole if not self.evidence(each).favors_common_labels)
        best = max(fair, key=lambda each: each.mean, default=None)
        if len(self.problem.learners) > 1:
            return best
        plain = whole[0]
        is_ahead = best and is_behind(plain.shares(), best.shares(), _AHEAD_ALONE)
        return best if is_ahead else plain

    def mean_predictions(self, candidates: Sequence[Candidate]) -> tuple[OutOfFold, ...]:
        """Return the mean predictions of some candidates by each division that they share."""
        found = zip(*(self[each] for each in candidates), strict=False)
        return tuple(first.averaged_with(others) for first, *others in found)
