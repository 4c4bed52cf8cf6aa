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

from joblib import effective_n_jobs

from noisebound.data.dataset import stratified_indices
from noisebound.data.loader import derived_seed
from noisebound.data.rows import SparseRows
from noisebound.estimation import EstimatedNoise, Noise, OutOfFold, UnknownNoise
from noisebound.learners import Learner
from noisebound.learners.network import Network, judged_epochs
from noisebound.search.choice import Choice
from noisebound.search.cross_fit import cross_fit, half_folds
from noisebound.search.evidence import Evidence
from noisebound.search.problem import Problem
from noisebound.search.recipes import LEARNER_LABELS, RECIPES, Candidate
from noisebound.search.trials import FEW, PLAIN, Trials
from noisebound.system.progress import time_left
from noisebound.training.data import TrainingData
from noisebound.training.session import Session, one_thread

SEARCH_EXAMPLES = 5_000
"""The most examples that candidates are tried on. The standard error of a difference in agreement
is then about half a point."""

_DIVISIONS = 2
"""The differences between two divisions' predictions show the learners' mistakes. With three
divisions, the accuracy on the dev tables of ``benchmarks/estimates.py`` is the same."""

_MORE_DIVISIONS = 3
"""Divisions of a few examples: one depends on chance, and another takes little time; heuristic."""

LEADERS = 3  # learners whose mean predictions estimate the noise; heuristic

REGULARIZED = Candidate("network", "regularized")


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
        count = _MORE_DIVISIONS if len(self.labels) <= FEW else _DIVISIONS
        count = 1 if problem.config.quick else count
        self.divisions = [
            half_folds(self.labels, derived_seed(self.seed, number), self.data.train.groups)
            for number in range(count)
        ]
        self.trials = Trials(self.problem, count)

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
            members, agreement = self.trials.members()
        evidence = sorted(
            map(self.trials.evidence, self.trials.results()), key=lambda each: -each.agreement
        )
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
        by_members = self.trials.mean_predictions(whole or members) if members else ()
        return Searched(choice, leaders, self.trials.mean_predictions(leaders), by_members)

    def race_of_learners(self) -> tuple[Candidate, ...]:
        """Try all learners on the labels as they are; return those in the race, the best first."""
        racing = [Candidate(name, "plain") for name in self.learners]
        if "network" in self.learners and self.problem.can_regularize:
            racing.append(REGULARIZED)
        for number in range(len(self.divisions)):
            self.attempt(racing, number)
            racing = self.trials.in_the_race(racing)
            if number == 0 and len(self.learners) > 1:  # one kind of network is enough
                worse = PLAIN if self.trials.is_ahead(REGULARIZED, PLAIN) else REGULARIZED
                racing = [each for each in racing if each != worse]
        regularize = self.trials.is_ahead(REGULARIZED, PLAIN)
        self.problem = replace(self.problem, regularize=regularize)
        if PLAIN in self.trials:
            best_epoch = judged_epochs(self.epochs)[self.trials.best_stage_of(PLAIN)]
            self.problem = replace(self.problem, fewest_epochs=best_epoch)
        return tuple(self.trials.best_of_each(racing))

    def _race_of_recipes(self, rivals: Sequence[Candidate]) -> None:
        """Try the recipes of all learners in the race; the best of each gets more trials."""
        racing = [
            Candidate(rival.learner, recipe)
            for rival in rivals
            for recipe in self.problem.recipes(rival.learner)
        ]
        for number in range(len(self.divisions) if racing else 0):
            self.attempt(racing, number, self.noise_of_halves(rivals[:LEADERS], number))
            racing = self.trials.in_the_race(racing)
            if len(self.learners) == 1:
                racing = [each for each in racing if self.trials.is_ahead(each, rivals[0])]
            racing = self.trials.best_of_each(racing)
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
        return (self.trials.evidence(self.trials.result(candidate)),)

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
        network = self.problem.learner(PLAIN, self.data, noise)
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


def _part(data: TrainingData, seed: int) -> TrainingData:
    """Return the examples that candidates are tried on, in memory."""
    part = data.subset(stratified_indices(data.train.labels, SEARCH_EXAMPLES, seed))
    train = part.train
    if not isinstance(train.inputs, SparseRows):
        train = replace(train, inputs=train.dense_inputs)
    return replace(part, train=train, validation=None, test=None)


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
