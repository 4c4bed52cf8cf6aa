"""Trials of every candidate on halves of the examples: the evidence that decides what trains.

A candidate is a learner with a recipe. It trains on one half of the examples and predicts the
labels of the other half. Those labels are noisy, and still the better model agrees with more of
them. The noise that a recipe uses is estimated within its own half, and the stage at which a
learner stops comes from the other half. So no label that judges a candidate had a part in its
training.

First, all learners learn the labels as they are. Those that predict clearly fewer labels than the
best leave the race, and the others estimate the noise. Then the recipes are tried, with the
learners that are left. The data is divided several times, so that the comparison depends less on
one division.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Float64
from joblib import effective_n_jobs
from torch import Tensor

from noisebound.data.dataset import stratified_indices
from noisebound.data.loader import derived_seed
from noisebound.data.rows import SparseRows
from noisebound.estimation import EstimatedNoise, Noise, OutOfFold, UnknownNoise
from noisebound.learners import Learner
from noisebound.learners.network import Network, judged_epochs
from noisebound.search.choice import Choice
from noisebound.search.cross_fit import best_stage, cross_fit, half_folds
from noisebound.search.evidence import Evidence, evidence_of, is_behind
from noisebound.search.problem import Problem
from noisebound.search.recipes import LEARNER_LABELS, RECIPES, Candidate
from noisebound.system.progress import time_left
from noisebound.training.config import LearnerName
from noisebound.training.data import TrainingData
from noisebound.training.session import Session, one_thread

SEARCH_EXAMPLES = 5_000
"""The most examples that candidates are tried on. The standard error of a difference in agreement
is then about half a point."""

_DIVISIONS = 2
"""The differences between two divisions' predictions show the learners' mistakes. With three
divisions, the accuracy on the dev tables of ``benchmarks/estimates.py`` is the same."""

_FEW, _MORE_DIVISIONS = 600, 3
"""One division of a few examples depends on chance, and another takes little time; heuristic. Among
so few, the suspects of a trial are too poor to judge whether dropping suspects helps, so ensembles
have both: +1.6 ± 0.6 points with 150 and 350 examples (``benchmarks/rules.py``)."""

LEADERS = 3  # learners whose mean predictions estimate the noise; heuristic

_PLAIN, REGULARIZED = Candidate("network", "plain"), Candidate("network", "regularized")

_FAR = 3.0
"""Standard errors behind the best after which a candidate gets no more trials. The best of several
is partly the luckiest, so this takes more than `CERTAIN`; heuristic."""

_AHEAD_ALONE = _FAR
"""Standard errors by which a recipe must be ahead of plain training if there is one learner only:
no other member of an ensemble makes up for a wrong choice then."""

_NEAR = 1.0  # the one-standard-error rule, in favor of larger ensembles


@dataclass(frozen=True, eq=False)
class Searched:
    """The result of a search.

    Args:
        choice: what to train
        leaders: the candidates on the labels as they are that predict most labels
        predictions: the mean of the leaders' predictions for all training examples, by division;
            empty if the trials saw a part of the examples
        by_members: the same of the members of the choice, whose recipes find more wrong labels;
            empty if there is one learner, since the floor of a bounded loss is measured on
            predictions of noisy labels
    """

    choice: Choice
    leaders: tuple[Candidate, ...] = ()
    predictions: tuple[OutOfFold, ...] = ()
    by_members: tuple[OutOfFold, ...] = ()


class Search:
    """Trials of candidates; a trial that is done is not done again.

    Args:
        problem: the training examples, the learners, and how to train
    """

    def __init__(self, problem: Problem) -> None:
        self.session, self.learners = problem.session, problem.learners
        self.seed, self.epochs = problem.config.seed, problem.head_config.epochs
        self.saw_all = len(problem.data.train) <= SEARCH_EXAMPLES
        self.data = problem.data if self.saw_all else _part(problem.data, self.seed)
        # Processes get copies of this, so it holds no more than the trials need.
        self.problem = replace(
            problem,
            data=self.data,
            config=problem.head_config,
            session=Session(problem.session.of_trials, show=False),
            unfrozen=None,
        )
        self.labels = self.data.train.labels
        count = _MORE_DIVISIONS if len(self.labels) <= _FEW else _DIVISIONS
        count = 1 if problem.config.quick else count
        self.divisions = [
            half_folds(self.labels, derived_seed(self.seed, number), self.data.train.groups)
            for number in range(count)
        ]
        self.trials: dict[Candidate, list[OutOfFold]] = {}

    def run(self) -> Searched:
        """Try all candidates, and choose."""
        is_named = self.problem.config.method != "auto"
        self.session.announce(self._announcement(recipes=not is_named))
        rivals = self.race_of_learners()
        leaders = rivals[:LEADERS]
        if is_named:
            members = self._named(leaders)
            agreement = members[0].agreement
        else:
            if not self.problem.config.quick:
                self._race_of_recipes(rivals)
            members, agreement = self._members()
        evidence = sorted(map(self._evidence, self._results()), key=lambda each: -each.agreement)
        regularize = self.problem.regularize
        choice = Choice(members, tuple(evidence), regularize, agreement, is_named=is_named)
        return self._searched(choice, leaders)

    def run_for_noise(self) -> Searched:
        """Do only the trials of `run` that the noise estimate needs, with the same results."""
        self.session.announce(self._announcement(recipes=False))
        leaders = self.race_of_learners()[:LEADERS]
        choice = replace(Choice.named("plain", self.epochs), regularize=self.problem.regularize)
        return self._searched(choice, leaders)

    def _searched(self, choice: Choice, leaders: tuple[Candidate, ...]) -> Searched:
        if not self.saw_all:
            return Searched(choice, leaders)
        has_rivals = choice.tried and len(self.learners) > 1
        members = [each.candidate for each in choice.members if has_rivals]
        whole = [each for each in members if len(self.trials[each]) == len(self.divisions)]
        by_members = self._mean_predictions(whole or members) if members else ()
        return Searched(choice, leaders, self._mean_predictions(leaders), by_members)

    def race_of_learners(self) -> tuple[Candidate, ...]:
        """Try all learners on the labels as they are; return those in the race, the best first."""
        racing = [Candidate(name, "plain") for name in self.learners]
        if "network" in self.learners and self.problem.can_regularize:
            racing.append(REGULARIZED)
        for number in range(len(self.divisions)):
            self.attempt(racing, number)
            racing = self._in_the_race(racing)
            if number == 0 and len(self.learners) > 1:  # one kind of network is enough
                worse = _PLAIN if self._is_ahead(REGULARIZED, _PLAIN) else REGULARIZED
                racing = [each for each in racing if each != worse]
        regularize = self._is_ahead(REGULARIZED, _PLAIN)
        self.problem = replace(self.problem, regularize=regularize)
        if _PLAIN in self.trials:
            best_epoch = judged_epochs(self.epochs)[self._best_stage(_PLAIN)]
            self.problem = replace(self.problem, fewest_epochs=best_epoch)
        return tuple(self._best_of_each(racing).values())

    def _race_of_recipes(self, rivals: Sequence[Candidate]) -> None:
        """Try the recipes of all learners in the race; the best of each gets more trials."""
        racing = [
            Candidate(rival.learner, recipe)
            for rival in rivals
            for recipe in self.problem.recipes(rival.learner)
        ]
        for number in range(len(self.divisions) if racing else 0):
            self.attempt(racing, number, self.noise_of_halves(rivals[:LEADERS], number))
            racing = self._in_the_race(racing)
            if len(self.learners) == 1:
                racing = [each for each in racing if self._is_ahead(each, rivals[0])]
            racing = list(self._best_of_each(racing).values())
            if not racing:
                break

    def _named(self, leaders: Sequence[Candidate]) -> tuple[Evidence, ...]:
        """Return the evidence of the learner and the recipe that the user named."""
        recipe = self.problem.config.recipe
        assert recipe is not None
        assert recipe != "auto"
        candidate = Candidate(self.learners[0], recipe)
        if candidate not in self.trials:
            for number in range(len(self.divisions)):
                self.attempt([candidate], number, self.noise_of_halves(leaders, number))
        (found,) = (each for each in self._results() if each.candidate == candidate)
        return (self._evidence(found),)

    def attempt(
        self,
        candidates: Iterable[Candidate],
        number: int,
        noises: Sequence[EstimatedNoise] | None = None,
    ) -> None:
        """Try candidates on one division."""
        halves, tasks = self.divisions[number], {}
        for candidate in candidates:
            prepare = partial(prepared, self.problem, candidate, noises)
            name = f"{candidate.learner}-{candidate.recipe}-{number + 1}"
            tasks[name] = partial(cross_fit, self.data, halves, prepare, self.seed)
        kind = "trying learners" if noises is None else "trying recipes"
        found = self.session.kept_or_computed_all(tasks, self._title(kind, number))
        for candidate, result in zip(candidates, found, strict=True):
            self.trials.setdefault(candidate, []).append(result)

    def _announcement(self, *, recipes: bool = True) -> str:
        """Return a line about the search that is to come."""
        has_recipes, count = recipes and not self.problem.config.quick, len(self.learners)
        if count > 1:
            work = f"comparing {count} learners ({', '.join(self.learners)})"
            work += " and their recipes" if has_recipes else ""
        else:
            work = "comparing recipes for" if has_recipes else "training"
            work += f" {LEARNER_LABELS[self.learners[0]]}"
        return f"{work} on halves of {len(self.labels):,} examples{self._duration(has_recipes)}"

    def _duration(self, has_recipes: bool) -> str:
        """Return in words how long the trials take, if they are of a network on pixels."""
        if not self.problem.is_on_pixels:
            return ""
        noise = UnknownNoise(self.data.train.num_classes)
        network = self.problem.learner(_PLAIN, self.data, noise)
        assert isinstance(network, Network)
        trainings = len(self.divisions)
        if has_recipes:  # the noise of the halves takes one more
            trainings += 1 + len(self.problem.recipes("network"))
        with one_thread():
            seconds = trainings * network.seconds(self.data)
        return f", {time_left(seconds / effective_n_jobs(self.session.n_jobs))}"

    def _title(self, kind: str, number: int) -> str:
        count = len(self.divisions)
        return kind if count == 1 else f"{kind}, division {number + 1} of at most {count}"

    def noise_of_halves(self, leaders: Sequence[Candidate], number: int) -> list[EstimatedNoise]:
        """Estimate the noise of each half within that half, by the mean of the leaders."""
        # Networks take longest, and the others know enough of the noise.
        leaders = [each for each in leaders if each.learner != "network"] or leaders
        tasks = {}
        for half, positions in enumerate(self.divisions[number]):
            part = replace(self.data.subset(positions), validation=None)
            folds = half_folds(part.train.labels, self.seed, part.train.groups)
            for leader in leaders:
                prepare = partial(prepared, self.problem, leader, None)
                name = f"inner-{leader.learner}-{number + 1}-{half + 1}"
                tasks[name] = partial(cross_fit, part, folds, prepare, self.seed)
        found = self.session.kept_or_computed_all(
            tasks, self._title("estimating the noise", number)
        )
        return [
            EstimatedNoise.of(first.averaged_with(others))
            for first, *others in (found[: len(leaders)], found[len(leaders) :])
        ]

    def _results(self) -> list["_Result"]:
        """Return what each candidate predicted; plain training to the last epoch comes first."""
        return [result for candidate in self.trials for result in self._results_of(candidate)]

    def _results_of(self, candidate: Candidate) -> list["_Result"]:
        staged, stage = self._staged_hits(candidate), self._best_stage(candidate)
        hits = torch.stack([each.are_hits for each in self.trials[candidate]])
        last = len(staged[0]) - 1
        stops_early = candidate.learner == "network" and stage < last
        found = _Result(candidate, hits, stage, stops_early)
        if candidate != _PLAIN:
            return [found]
        to_the_end = _Result(candidate, torch.stack([each[-1] for each in staged]), last, False)
        return [to_the_end, found] if stops_early else [to_the_end]

    def _best_stage(self, candidate: Candidate) -> int:
        return best_stage(torch.cat(self._staged_hits(candidate), dim=1))

    def _staged_hits(
        self, candidate: Candidate
    ) -> list[Bool[Tensor, "stages n"] | Float[Tensor, "stages n"]]:
        return [each.hits for each in self.trials[candidate] if each.hits is not None]

    def _evidence(self, result: "_Result") -> Evidence:
        plain = self._results_of(next(iter(self.trials)))[0]
        both = min(len(result.hits), len(plain.hits))
        is_network = result.candidate.learner == "network"
        found = evidence_of(
            result.candidate,
            self.labels,
            result.shares(both),
            plain.shares(both),
            stage=result.stage,
            epochs=judged_epochs(self.epochs)[result.stage] if is_network else 0,
            stops_early=result.stops_early,
            setting=self.problem.setting(result.candidate.learner, result.stage),
        )
        # The gain is in the divisions of both, and the agreement in all of them.
        return replace(found, agreement=result.mean)

    def _is_ahead(self, candidate: Candidate, other: Candidate) -> bool:
        """True if a candidate predicts more labels than another, in the divisions of both."""
        results = {each.candidate: each for each in self._results()}
        if candidate not in results or other not in results:
            return candidate in results
        one, two = results[candidate], results[other]
        both = min(len(one.hits), len(two.hits))
        return bool((one.shares(both) - two.shares(both)).mean() > 0)

    def _best_of_each(self, candidates: Iterable[Candidate]) -> dict[LearnerName, Candidate]:
        """Return the best candidate of each learner, that of the most predicted labels first."""
        shares = {each.candidate: each.mean for each in self._results()}
        best: dict[LearnerName, Candidate] = {}
        for candidate in sorted(candidates, key=lambda each: -shares[each]):
            best.setdefault(candidate.learner, candidate)
        return best

    def _in_the_race(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that are not clearly behind the best of all so far."""
        results = {each.candidate: each for each in self._results()}
        done = min((len(results[each].hits) for each in candidates), default=0)
        rivals = [each for each in results.values() if len(each.hits) >= done]
        fair = [each for each in rivals if not self._evidence(each).favors_common_labels]
        best = max(fair or rivals, key=lambda each: each.shares(done).mean().item())
        return [
            each
            for each in candidates
            if not is_behind(results[each].shares(), best.shares(done), _FAR)
        ]

    def _members(self) -> tuple[tuple[Evidence, ...], float]:
        """Return the candidates whose mean predictions are best, and the agreement of that mean.

        The best of each learner join in the order of their agreement. The largest ensemble is
        chosen that chance may have put behind the best.
        """
        found = [self._best_of(learner) for learner in self.learners]
        best = [each for each in found if each is not None] or self._results()[:1]
        best.sort(key=lambda each: -each.mean)
        size = min(self.problem.config.ensemble_size, len(best))
        shares = [self._shares_of_mean(best[:count]) for count in range(1, size + 1)]
        most = max(shares, key=lambda each: each.mean().item())
        near = [each for each in enumerate(shares, 1) if not is_behind(each[1], most, _NEAR)]
        count, _ = near[-1]
        members = self._with_both_label_uses(best[:count])
        return tuple(map(self._evidence, members)), self._shares_of_mean(members).mean().item()

    def _with_both_label_uses(self, members: Sequence["_Result"]) -> list["_Result"]:
        """Return the members, and the same learners on labels as given and without suspects.

        Trials cannot compare these two on a few examples: suspects that are found within half of
        them are much worse than those found among all.
        """
        found = {each.candidate: each for each in members}
        are_few = len(self.labels) <= _FEW and self.data.train.votes is None
        if are_few and len(self.learners) > 1 and self.problem.config.ensemble_size > 1:
            for learner in [each.learner for each in found if each.learner != "network"]:
                for other in (Candidate(learner, "plain"), Candidate(learner, "dropped")):
                    if other in self.trials:  # a quick search tries no recipes
                        found.setdefault(other, self._results_of(other)[0])
        return list(found.values())

    def _shares_of_mean(self, members: Sequence["_Result"]) -> Float64[Tensor, " n"]:
        """Return how often the mean of some candidates predicted each label."""
        if len(members) == 1:
            return members[0].shares()
        means = self._mean_predictions([each.candidate for each in members])
        return torch.stack([each.are_hits for each in means]).double().mean(0)

    def _best_of(self, learner: LearnerName) -> "_Result | None":
        """Return the best candidate of a learner; of the only learner, it must be certain."""
        whole = [
            each
            for each in self._results()
            if each.candidate.learner == learner and len(each.hits) == len(self.divisions)
        ]
        best = _best(each for each in whole if not self._evidence(each).favors_common_labels)
        if len(self.learners) > 1:
            return best
        plain = whole[0]
        is_ahead = best and is_behind(plain.shares(), best.shares(), _AHEAD_ALONE)
        return best if is_ahead else plain

    def _mean_predictions(self, candidates: Sequence[Candidate]) -> tuple[OutOfFold, ...]:
        """Return the mean predictions of some candidates by each division that they share."""
        found = zip(*(self.trials[each] for each in candidates), strict=False)
        return tuple(first.averaged_with(others) for first, *others in found)


def _part(data: TrainingData, seed: int) -> TrainingData:
    """Return the examples that candidates are tried on, in memory."""
    part = data.subset(stratified_indices(data.train.labels, SEARCH_EXAMPLES, seed))
    train = part.train
    if not isinstance(train.inputs, SparseRows):
        train = replace(train, inputs=train.dense_inputs)
    return replace(part, train=train, validation=None, test=None)


@dataclass(frozen=True, eq=False)
class _Result:
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


def _best(results: Iterable[_Result]) -> _Result | None:
    return max(results, key=lambda each: each.mean, default=None)


def prepared(
    problem: Problem,
    candidate: Candidate,
    noises: Sequence[EstimatedNoise] | None,
    half: TrainingData,
    number: int,
) -> tuple[Learner, TrainingData]:
    """Return the learner of a candidate for a half of the examples, and what it trains on."""
    if noises is None:
        noise: Noise = UnknownNoise(half.train.num_classes)
    else:
        noise = noises[number]
        half = RECIPES[candidate.recipe].prepare(half, noises[number])
    return problem.learner(candidate, half, noise), half
