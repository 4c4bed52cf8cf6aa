"""Trials of every recipe on halves of the examples, which are the evidence to choose one by.

Each recipe trains on one half of the examples and predicts the labels of the other half. Those
labels are noisy, and still the better model agrees with more of them. What a recipe knows of the
noise comes from networks that saw its own half alone, and the epoch at which it stops comes from
the other half's trial: no label that judges a recipe has had a part in it.

Whether the networks of a half are regularized is decided in that half too: if such networks predict
more of its labels out of fold. That of plain training never is: all others are compared with it.

Small data is divided several times, so that a difference between two recipes depends less on which
half a network happened to be trained on.
"""

import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int64
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.data.loader import derived_seed
from noisebound.data.sparse_rows import SparseRows
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.models.regularized import can_be_regularized, regularized
from noisebound.training.choose import Choice, choice_by, hopeful
from noisebound.training.config import RecipeName, TrainingConfig
from noisebound.training.cross_fit import CrossFit, CrossFitPlan, half_folds, once, plain_config
from noisebound.training.data import TrainingData
from noisebound.training.evidence import Judges
from noisebound.training.keeper import NOTHING_KEPT, Keeper
from noisebound.training.objective import make_objective
from noisebound.training.recipe import RECIPES, Recipe
from noisebound.training.state import TrainingState
from noisebound.training.trial import Trial
from noisebound.training.trusting import trusting

SEARCH_EXAMPLES = 5_000
"""The most examples that recipes are tried on: the standard error of a difference in agreement is
then about half a point, and ten trials cost as much as one training on 50,000 examples."""

_MOST_DIVISIONS = 3
"""So many divisions, as long as their examples are together no more than `SEARCH_EXAMPLES`, so that
small data costs no more than large: a choice, made on the tables of the first half of
``benchmarks/survey_tables.py``."""


class RecipeSearch:
    """Trials of every recipe on halves of the examples; a trial that is done is not done again.

    Args:
        data: the training examples
        config: how to train
        network: the network before training; copies of it are trained
        fabric: launched
        keeper: keeps the trials that are done
        show: True to draw the loss as it falls, where someone is looking
    """

    def __init__(
        self,
        data: TrainingData,
        config: TrainingConfig,
        network: nn.Module,
        fabric: Fabric,
        *,
        keeper: Keeper = NOTHING_KEPT,
        show: bool = True,
    ) -> None:
        self.data, self.config, self.network = data, plain_config(config), network
        self.fabric, self.keeper, self.show = fabric, keeper, show
        self.fitter: CrossFit | None = None
        self.trial: Trial | None = None
        is_sparse = isinstance(data.train.inputs, SparseRows)
        self.can_regularize = can_be_regularized(network) and not is_sparse
        self._regularized_gains: list[Tensor] = []  # in each half, for each of its labels
        # By half, what cross-entropy on the labels as they are predicts of the other half.
        self._unaltered: dict[RecipeName, list[OutOfFold]] = {"plain": [], "regularized": []}

    @property
    def has_seen_all(self) -> bool:
        """True if the recipes were tried on all examples, and not on some thousands of them."""
        return len(self.data.train) <= SEARCH_EXAMPLES

    @property
    def opinions(self) -> list[OutOfFold]:
        """Out-of-fold predictions by each division; empty if the trials saw a part of the examples.

        They are by cross-entropy on the labels as given. Their halves differ from those of the
        cross-fit that estimates the noise, so that differences between both show the networks' own
        mistakes.
        """
        return [self._opinion(start) for start in self._starts] if self.has_seen_all else []

    @property
    def _starts(self) -> range:
        """Where divisions begin in the list of halves: two in a row are all examples."""
        return range(0, len(self._unaltered["plain"]) - 1, 2)

    def _opinion(self, start: int) -> OutOfFold:
        usual, other = (
            self._unaltered[name][start : start + 2] for name in ("plain", "regularized")
        )
        was_given_up = len(other) < len(usual)
        return OutOfFold.joined(other if self.regularize and not was_given_up else usual)

    @property
    def state(self) -> TrainingState | None:
        """The state of the network that is being trained, or was last."""
        if self.trial is not None:
            return self.trial.state
        return None if self.fitter is None else self.fitter.state

    @property
    def regularize(self) -> bool:
        """True if regularized networks predicted more labels out of fold than others."""
        return (
            bool(self._regularized_gains) and torch.cat(self._regularized_gains).mean().item() > 0
        )

    def choose(self) -> Choice:
        """Return the recipe with the clearest evidence."""
        part = self._part()
        halves = self._halves(part.train.labels)
        trials: dict[RecipeName, list[Tensor]] = {
            name: []
            for name, recipe in RECIPES.items()
            if self.can_regularize or not recipe.is_regularized
        }
        judges = Judges(part.train.labels, halves)
        for number, judged in enumerate(halves):
            half = _only(part, halves[number ^ 1])
            candidates = hopeful(trials, judges)
            if not candidates:
                break
            learned = self._learn(half, number + 1)
            for recipe in candidates:
                found = self._try(
                    recipe, half, learned, part.train.subset(judged), judged, number + 1
                )
                assert found.hits is not None
                trials[recipe.name].append(found.hits)
                if recipe.name in self._unaltered:
                    self._unaltered[recipe.name].append(found)
        if not self.regularize:  # then it was plain training in most halves, if not in all
            trials.pop("regularized", None)
        return replace(choice_by(trials, judges), regularize=self.regularize)

    def _halves(self, labels: Int64[Tensor, " n"]) -> list[Int64[Tensor, " _"]]:
        """Return the halves that judge; two in a row are a division of all examples."""
        divisions = min(_MOST_DIVISIONS, SEARCH_EXAMPLES // len(labels))
        # Not the halves of the cross-fit that estimates the noise: see `opinions`.
        seeds = [derived_seed(self.config.seed, number) for number in range(divisions)]
        return [half for seed in seeds for half in half_folds(labels, seed)]

    def _part(self) -> TrainingData:
        """Return the examples that recipes are tried on: all, or some thousands of them."""
        if self.has_seen_all:
            return self.data
        labels = self.data.train.labels
        return _only(self.data, stratified_indices(labels, SEARCH_EXAMPLES, self.config.seed))

    def _learn(self, half: TrainingData, number: int) -> "_Learned":
        """Return what quarters of the examples tell of one half: its noise, and the better network.

        Whether the estimate is any good is not asked here: the trials will show it.
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
        self.trial, self.fitter = (
            None,
            CrossFit(
                replace(half, validation=None),
                plan,
                network,
                self.fabric,
                keeper=self.keeper,
                show=self.show,
            ),
        )
        return self.fitter.out_of_fold()

    def _try(
        self,
        recipe: Recipe,
        half: TrainingData,
        learned: "_Learned",
        judged: Dataset,
        positions: Int64[Tensor, " m"],
        number: int,
    ) -> OutOfFold:
        """Return what a training by the recipe on one half predicts of the other."""
        if recipe.is_regularized and not learned.regularize:
            return self._unaltered["plain"][-1]  # this half would not regularize
        data, config = recipe.prepare(half, learned.noise), recipe.config(self.config)
        if not (self.has_seen_all and recipe.name in self._unaltered):
            data = replace(data, validation=None)  # its predictions would not be used
        train = data.train
        objective = make_objective(config, train.num_classes, len(train), learned.noise)
        if data.checked is not None:
            objective = trusting(objective, data.checked, train.weights, config)
        network = recipe.network(self.network, regularize=learned.regularize)
        self.trial = Trial(
            data,
            judged,
            config,
            objective,
            copy.deepcopy(network),
            self.fabric,
            # Plain training is what all are compared with. Another that is well past its best epoch
            # could only be chosen to stop there, and need not show how much it memorizes later.
            stops="never" if recipe.name == "plain" else "well past the most hits",
            title=f"trying {recipe.label}, half {number}",
            show=self.show,
        )
        run = partial(self.trial.run, positions)
        return once(f"{recipe.name}-{number}", run, self.keeper, self.fabric)


class _Learned(NamedTuple):
    """What networks that see one half alone tell of it.

    Args:
        noise: the noise of its labels
        regularize: True if regularized networks predict more of its labels
    """

    noise: EstimatedNoise
    regularize: bool


def _only(data: TrainingData, chosen: Int64[Tensor, " m"]) -> TrainingData:
    positions = chosen if data.positions is None else data.positions[chosen]
    checked = None if data.checked is None else data.checked.subset(chosen)
    return replace(data, train=data.train.subset(chosen), positions=positions, checked=checked)
