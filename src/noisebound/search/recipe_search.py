"""Trials of every recipe on halves of the examples: the evidence that a recipe is chosen by.

Each recipe trains on one half of the examples and predicts the labels of the other half. Those
labels are noisy, and still the better model agrees with more of them. The noise that a recipe uses
is estimated by networks that saw its own half alone, and the epoch at which it stops comes from the
other half's trial. So no label that judges a recipe had a part in its training.

Whether the networks of a half are regularized is decided within that half: by whether such networks
predict more of its labels out of fold. Plain training, which all recipes are compared with, never
uses them.

Small data is divided several times, so that the comparison depends less on one division.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.data.loader import derived_seed
from noisebound.data.rows import SparseRows
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.models.regularized import can_be_regularized, regularized
from noisebound.search.choice import Choice, choice_by, named_choice, worth_another_trial
from noisebound.search.cross_fit import CrossFitPlan, cross_fit, half_folds, plain_config
from noisebound.search.evidence import Judges
from noisebound.search.problem import Problem
from noisebound.search.recipes import RECIPES, Recipe
from noisebound.search.trial import Trial
from noisebound.training.config import RecipeName
from noisebound.training.data import TrainingData

SEARCH_EXAMPLES = 5_000
"""The most examples that recipes are tried on. The standard error of a difference in agreement is
then about half a point, and ten trials cost as much as one training on 50,000 examples."""

_MOST_DIVISIONS = 3
"""Divisions of small data, as long as their examples together are at most `SEARCH_EXAMPLES`. Chosen
on the first half of the tables of ``benchmarks/survey_tables.py``."""

_FOR_NOISE = 2
"""Halves whose trials serve the noise estimate: the first division, however many follow."""


@dataclass(frozen=True, eq=False)
class Searched:
    """The result of a search.

    Args:
        choice: the recipe with the clearest evidence
        predictions: out-of-fold predictions for all training examples, by each division; empty if
            the trials saw a part of the examples
        saw_all: True if the recipes were tried on all examples
    """

    choice: Choice
    predictions: tuple[OutOfFold, ...] = ()
    saw_all: bool = True


class RecipeSearch:
    """Trials of every recipe on halves of the examples; a trial that is done is not done again.

    Args:
        problem: the training examples, the network of which copies are trained, and how to train
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.data, self.session = problem, problem.data, problem.session
        self.config, self.network = plain_config(problem.head_config), problem.network
        self.saw_all = len(self.data.train) <= SEARCH_EXAMPLES
        is_sparse = isinstance(self.data.train.inputs, SparseRows)
        self.can_regularize = can_be_regularized(self.network) and not is_sparse
        self._regularized_gains: list[Tensor] = []  # in each half, for each of its labels
        # By half: predictions for the other half by cross-entropy on the labels as given.
        self._unaltered: dict[RecipeName, list[OutOfFold]] = {"plain": [], "regularized": []}

    def run(self) -> Searched:
        """Try the recipes, and return the one with the clearest evidence."""
        part = self._part()
        halves = self._halves(part.train.labels)
        trials: dict[RecipeName, list[Tensor]] = {
            name: []
            for name, recipe in RECIPES.items()
            if self.can_regularize or not recipe.is_regularized
        }
        judges = Judges(part.train.labels, halves)
        for number in range(len(halves)):
            candidates = worth_another_trial(trials, judges)
            if not candidates:
                break
            if number < _FOR_NOISE:
                candidates += [each for each in self._for_noise if each not in candidates]
            for name, found in self._trials(part, halves, number, candidates).items():
                assert found.hits is not None
                trials[name].append(found.hits)
        regularize = self._regularize()
        if not regularize:  # then most of its trials were plain training, if not all
            trials.pop("regularized", None)
        choice = replace(choice_by(trials, judges), regularize=regularize)
        return Searched(choice, self._predictions(regularize), self.saw_all)

    def run_for_noise(self) -> Searched:
        """Do only the trials of `run` that the noise estimate needs, with the same results."""
        part = self._part()
        halves = self._halves(part.train.labels)
        for number in range(_FOR_NOISE if self.saw_all or self.can_regularize else 0):
            self._trials(part, halves, number, self._for_noise if self.saw_all else [])
        regularize = self._regularize()
        choice = replace(named_choice("plain", self.config.epochs), regularize=regularize)
        return Searched(choice, self._predictions(regularize), self.saw_all)

    @property
    def _for_noise(self) -> list[Recipe]:
        """The recipes whose predictions serve the noise estimate."""
        names = [name for name in self._unaltered if self.can_regularize or name == "plain"]
        return [RECIPES[name] for name in names]

    def _trials(
        self,
        part: TrainingData,
        halves: Sequence[Int64[Tensor, " _"]],
        number: int,
        recipes: Sequence[Recipe],
    ) -> dict[RecipeName, OutOfFold]:
        """Train on the other half by each recipe, and return the predictions for this half."""
        half, judged = part.subset(halves[number ^ 1]), halves[number]
        learned = self._learn(half, number + 1)
        found = {}
        for recipe in recipes:
            found[recipe.name] = self._try(
                recipe, half, learned, part.train.subset(judged), judged, number + 1
            )
            if recipe.name in self._unaltered:
                self._unaltered[recipe.name].append(found[recipe.name])
        return found

    def _regularize(self) -> bool:
        """True if regularized networks predicted more labels out of fold than others.

        The first division decides, so that `run` and `run_for_noise` agree.
        """
        gains = self._regularized_gains[:_FOR_NOISE]
        return bool(gains) and torch.cat(gains).mean().item() > 0

    def _predictions(self, regularize: bool) -> tuple[OutOfFold, ...]:
        """Return the predictions by each division.

        Their halves differ from those of the cross-fit that estimates the noise, so that
        differences between both show the networks' own mistakes.
        """
        if not self.saw_all:
            return ()
        usual, other = self._unaltered["plain"], self._unaltered["regularized"]
        found = []
        for start in range(0, len(usual) - 1, 2):  # two halves in a row are one division
            halves = usual[start : start + 2]
            if regularize and len(other) >= start + 2:
                halves = other[start : start + 2]
            found.append(OutOfFold.joined(halves))
        return tuple(found)

    def _halves(self, labels: Int64[Tensor, " n"]) -> list[Int64[Tensor, " _"]]:
        """Return the halves that judge; two in a row are a division of all examples."""
        divisions = min(_MOST_DIVISIONS, SEARCH_EXAMPLES // len(labels))
        seeds = [derived_seed(self.config.seed, number) for number in range(divisions)]
        return [half for seed in seeds for half in half_folds(labels, seed)]

    def _part(self) -> TrainingData:
        """Return the examples that recipes are tried on: all, or some thousands of them."""
        if self.saw_all:
            return self.data
        labels = self.data.train.labels
        return self.data.subset(stratified_indices(labels, SEARCH_EXAMPLES, self.config.seed))

    def _learn(self, half: TrainingData, number: int) -> "_Learned":
        """Estimate the noise of one half by cross-fitting it, and find its better network.

        Nothing checks the estimate here: the trials show whether it is any good.
        """
        title = f"half {number}: suspects"
        usual = self._out_of_fold(half, self.network, f"inner-{number}", title)
        if not self.can_regularize:
            return _Learned(EstimatedNoise.of(usual), False)
        network, name = regularized(self.network), f"inner-regularized-{number}"
        other = self._out_of_fold(half, network, name, f"{title}, regularized")
        gains = other.are_hits.double() - usual.are_hits.double()
        self._regularized_gains.append(gains)
        regularize = gains.mean().item() > 0
        return _Learned(EstimatedNoise.of(other if regularize else usual), regularize)

    def _out_of_fold(
        self, half: TrainingData, network: nn.Module, name: str, title: str
    ) -> OutOfFold:
        folds = half_folds(half.train.labels, self.config.seed)
        plan = CrossFitPlan(folds, self.config, title=title, name=name)
        return cross_fit(replace(half, validation=None), plan, network, self.session)

    def _try(
        self,
        recipe: Recipe,
        half: TrainingData,
        learned: "_Learned",
        judged: Dataset,
        positions: Int64[Tensor, " m"],
        number: int,
    ) -> OutOfFold:
        """Train on one half by the recipe, and return the predictions for the other half."""
        if recipe.is_regularized and not learned.regularize:
            return self._unaltered["plain"][-1]  # this half would not regularize
        data, config = recipe.prepare(half, learned.noise), recipe.config(self.config)
        if not (self.saw_all and recipe.name in self._unaltered):
            data = replace(data, validation=None)  # its predictions would not be used
        trial = Trial(
            data,
            judged,
            config,
            self.problem.objective(config, learned.noise, data),
            copy.deepcopy(recipe.network(self.network, regularize=learned.regularize)),
            self.session,
            # All recipes are compared with plain training. Another recipe that is well past its
            # best epoch could only be chosen to stop there, so its later epochs do not matter.
            stops="never" if recipe.name == "plain" else "well past the most hits",
            title=f"trying {recipe.label}, half {number}",
        )
        return self.session.kept_or_computed(
            f"{recipe.name}-{number}", partial(trial.run, positions)
        )


class _Learned(NamedTuple):
    """The noise of one half's labels, and whether regularized networks predict more of them."""

    noise: EstimatedNoise
    regularize: bool
