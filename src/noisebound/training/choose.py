"""The choice of a recipe by nested out-of-fold evidence; plain training is always a candidate.

Each recipe trains on one half of the examples and predicts the labels of the other half. Those
labels are noisy, and still the better model agrees with more of them. What a recipe knows of the
noise comes from networks that saw its own half alone, and the epoch at which it stops comes from
the other half's trial: no label that judges a recipe has had a part in it.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import EstimatedNoise
from noisebound.training.config import RecipeName, TrainingConfig
from noisebound.training.cross_fit import CrossFit, CrossFitPlan, half_folds, once, plain_config
from noisebound.training.data import TrainingData
from noisebound.training.keeper import NOTHING_KEPT, Keeper
from noisebound.training.objective import make_objective
from noisebound.training.recipe import RECIPES, Recipe
from noisebound.training.state import TrainingState
from noisebound.training.trial import Trial

SEARCH_EXAMPLES = 5_000
"""The most examples that recipes are tried on: the standard error of a difference in agreement is
then about half a point, and ten trials cost as much as one training on 50,000 examples."""

_CLEAR = 1.0
"""How many standard errors a recipe must be ahead of plain training to be chosen: where two recipes
are within chance, the plainer one trains."""

_HOPELESS = 2.0
"""A recipe that is so many standard errors behind the best after one half is given up."""

_SMOOTHING = 3  # epochs: the best epoch of a curve is sought without its jitter


@dataclass(frozen=True)
class Evidence:
    """What the trials of a recipe say of it.

    Args:
        recipe: the recipe
        stops_early: True if training ends at the epoch that agrees best with left-out labels
        epochs: the number of epochs that a training by it takes
        agreement: the share of the judged labels that it predicted
        gain: its agreement less that of plain training on the same examples
        standard_error: the standard error of the gain
        examples: how many labels judged it; 0 if the recipe was named and nothing was tried
    """

    recipe: RecipeName
    stops_early: bool
    epochs: int
    agreement: float
    gain: float
    standard_error: float
    examples: int

    @property
    def name(self) -> str:
        """The recipe's name, for a plot or a table."""
        return f"{self.recipe}, stopped early" if self.stops_early else self.recipe

    @property
    def label(self) -> str:
        """What it does, for people."""
        text = RECIPES[self.recipe].label
        return f"{text}, stopped after epoch {self.epochs}" if self.stops_early else text


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, and what it was chosen from.

    Args:
        chosen: the evidence of the recipe that trains
        tried: the evidence of all recipes, the best first; empty if the recipe was named
    """

    chosen: Evidence
    tried: tuple[Evidence, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The recipe that trains."""
        return RECIPES[self.chosen.recipe]

    @property
    def reason(self) -> str:
        """Why this recipe was chosen, in words."""
        if not self.tried:
            return "the recipe that was named"
        chosen, best = self.chosen, self.tried[0]
        if chosen.recipe != "plain" or chosen.stops_early:
            return (
                f"it predicts {chosen.agreement:.1%} of the labels of examples it did not see, "
                f"{chosen.gain:+.1%} ± {chosen.standard_error:.1%} over plain training"
            )
        if best is chosen:
            return "no recipe predicts more labels of examples that it did not see"
        return (
            f"the best other recipe, {best.label}, predicts {best.gain:+.1%} ± "
            f"{best.standard_error:.1%} of the labels it did not see: too little to tell them apart"
        )

    def record(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        return {"chosen": vars(self.chosen), "tried": [vars(each) for each in self.tried]}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> "Choice":
        """Return the choice that :meth:`record` wrote."""
        tried = tuple(Evidence(**each) for each in record["tried"])
        return cls(Evidence(**record["chosen"]), tried)


def named_choice(name: RecipeName, epochs: int) -> Choice:
    """Return the choice of a recipe that the user named."""
    return Choice(Evidence(name, False, epochs, 0.0, 0.0, 0.0, 0))


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

    @property
    def state(self) -> TrainingState | None:
        """The state of the network that is being trained, or was last."""
        if self.trial is not None:
            return self.trial.state
        return None if self.fitter is None else self.fitter.state

    def choose(self) -> Choice:
        """Return the recipe with the clearest evidence."""
        part = _part(self.data, self.config.seed)
        halves = half_folds(part.train.labels, self.config.seed)
        trials: dict[RecipeName, list[Tensor]] = {name: [] for name in RECIPES}
        for number, (judged, trained) in enumerate((halves, halves[::-1]), start=1):
            half = _only(part, trained)
            noise = self._noise_of(half, number)
            for recipe in _hopeful(trials):
                self.trial = self._trial(recipe, half, noise, part.train.subset(judged), number)
                name = f"{recipe.name}-{number}"
                found = once(name, partial(self.trial.run, judged), self.keeper, self.fabric)
                assert found.hits is not None
                trials[recipe.name].append(found.hits)
        return choice_by(trials)

    def _noise_of(self, half: TrainingData, number: int) -> EstimatedNoise:
        """Return what quarters of the examples tell of the labels of one half.

        Whether the estimate is any good is not asked here: the trials will show it.
        """
        folds = half_folds(half.train.labels, self.config.seed)
        plan = CrossFitPlan(
            folds, self.config, title=f"half {number}: suspects", name=f"inner-{number}"
        )
        self.trial, self.fitter = (
            None,
            CrossFit(half, plan, self.network, self.fabric, keeper=self.keeper, show=self.show),
        )
        return EstimatedNoise.of(self.fitter.out_of_fold())

    def _trial(
        self,
        recipe: Recipe,
        half: TrainingData,
        noise: EstimatedNoise,
        judged: Dataset,
        number: int,
    ) -> Trial:
        data, config = recipe.prepare(half, noise), recipe.config(self.config)
        train = data.train
        objective = make_objective(config, train.num_classes, len(train), noise)
        return Trial(
            data,
            judged,
            config,
            objective,
            copy.deepcopy(self.network),
            self.fabric,
            stops=False,
            title=f"trying {recipe.label}, half {number}",
            show=self.show,
        )


def choice_by(trials: Mapping[RecipeName, Sequence[Bool[Tensor, "epochs m"]]]) -> Choice:
    """Return the choice that these trials justify.

    Args:
        trials: for each recipe and half, whether each epoch predicted each judged label; a recipe
            that was given up has one half only
    """
    plain = [hits[-1] for hits in trials["plain"]]
    tried = []
    for name, halves in trials.items():
        tried.append(_evidence(name, [hits[-1] for hits in halves], plain, len(halves[0]), False))
        if len(halves) == 2:
            curves = [_smooth(hits.double().mean(1)) for hits in halves]
            sizes = [hits.shape[1] for hits in halves]
            # Each half is judged at the epoch that the other half prefers.
            stopped = [halves[0][curves[1].argmax()], halves[1][curves[0].argmax()]]
            epochs = int((sizes[0] * curves[0] + sizes[1] * curves[1]).argmax()) + 1
            tried.append(_evidence(name, stopped, plain, epochs, True))
    tried.sort(key=lambda each: -each.gain)  # stable: of equals the plainer first
    baseline = next(each for each in tried if each.recipe == "plain" and not each.stops_early)
    eligible = [each for each in tried if each.examples == baseline.examples]
    best = eligible[0]
    is_clear = best.gain > _CLEAR * best.standard_error
    return Choice(best if is_clear else baseline, tuple(tried))


def _evidence(
    name: RecipeName,
    hits: Sequence[Bool[Tensor, " m"]],
    plain: Sequence[Bool[Tensor, " m"]],
    epochs: int,
    stops_early: bool,
) -> Evidence:
    found = torch.cat(list(hits)).double()
    difference = found - torch.cat(list(plain[: len(hits)])).double()
    error = difference.std(correction=0).item() / math.sqrt(len(found))
    return Evidence(
        name,
        stops_early,
        epochs,
        found.mean().item(),
        difference.mean().item(),
        error,
        len(found),
    )


def _hopeful(trials: Mapping[RecipeName, Sequence[Bool[Tensor, "epochs m"]]]) -> list[Recipe]:
    """Return the recipes that may still turn out best: at first all, then all but clear losers."""
    last = {name: halves[0].double() for name, halves in trials.items() if halves}
    if not last:
        return list(RECIPES.values())
    best = max((hits[_smooth(hits.mean(1)).argmax()] for hits in last.values()), key=torch.mean)
    hopeful = []
    for name, hits in last.items():
        behind = best - hits[_smooth(hits.mean(1)).argmax()]
        error = behind.std(correction=0) / math.sqrt(len(behind))
        if name == "plain" or behind.mean() <= _HOPELESS * error:
            hopeful.append(RECIPES[name])
    return hopeful


def _smooth(curve: Float64[Tensor, " epochs"]) -> Float64[Tensor, " epochs"]:
    """Return the running mean over a few epochs, which has as many entries."""
    padded = F.pad(curve[None, None], (_SMOOTHING // 2,) * 2, mode="replicate")
    return F.avg_pool1d(padded, _SMOOTHING, stride=1).flatten()


def _part(data: TrainingData, seed: int) -> TrainingData:
    """Return the examples that recipes are tried on: all, or some thousands of them."""
    if len(data.train) <= SEARCH_EXAMPLES:
        return data
    return _only(data, stratified_indices(data.train.labels, SEARCH_EXAMPLES, seed))


def _only(data: TrainingData, chosen: Int64[Tensor, " m"]) -> TrainingData:
    positions = chosen if data.positions is None else data.positions[chosen]
    return TrainingData(data.train.subset(chosen), None, None, data.normalization, positions)
