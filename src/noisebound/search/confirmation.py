"""Trainings on all examples that confirm or correct what trials on a part of them suggest.

If the trials had a part of the examples, the best recipes are trained on all of them and compared
by labels that none of them saw. If the trials had all examples, in halves, the chosen recipe is
trained on all of them once: if its training accuracy is below the trials' held-out accuracy, it
failed.
"""

import copy
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import EstimatedNoise
from noisebound.search.choice import Choice
from noisebound.search.evidence import Evidence
from noisebound.search.problem import Problem
from noisebound.search.recipe_search import Searched
from noisebound.search.recipes import RECIPES
from noisebound.search.trial import Stop, Trial
from noisebound.training.data import TrainingData

_HELD_OUT_SHARE = 0.1  # of the examples, without a validation split; heuristic


def confirmed(problem: Problem, searched: Searched, noise: EstimatedNoise) -> Choice:
    """Return the choice after trainings on all examples, where these can change it."""
    choice, whole, seed = searched.choice, problem.data, problem.config.seed
    training = _OnAllExamples(problem, noise, regularize=choice.regularize)
    if searched.saw_all:
        if choice.is_plain:
            return choice
        return choice.after_full_training(training.hits_on_training_labels(choice.chosen))
    finalists = choice.finalists
    if len(finalists) == 1 and not choice.chosen.stops_early:
        return choice
    hits = [training.hits_on_held_out_labels(each) for each in finalists]
    _, held_out = held_out_split(whole, whole, seed)
    return choice.after_comparison(hits, held_out.labels)


@dataclass(frozen=True, eq=False)
class _OnAllExamples:
    """Trainings of recipes on all examples, with the noise of all labels."""

    problem: Problem
    noise: EstimatedNoise
    regularize: bool

    def hits_on_held_out_labels(self, evidence: Evidence) -> Bool[Tensor, "epochs n"]:
        """Return which held-out labels a recipe predicts after each epoch of its training."""
        prepared = RECIPES[evidence.recipe].prepare(self.problem.data, self.noise)
        data, held_out = held_out_split(self.problem.data, prepared, self.problem.config.seed)
        stops: Stop = "well past the most hits" if evidence.stops_early else "never"
        name, title = f"final-{evidence.recipe}", f"all examples: {evidence.recipe}"
        return self._hits(evidence, data, held_out, name=name, title=title, stops=stops)

    def hits_on_training_labels(self, evidence: Evidence) -> Bool[Tensor, " n"]:
        """Return which labels a recipe predicts when it was trained on all of them."""
        whole = self.problem.data
        prepared = RECIPES[evidence.recipe].prepare(whole, self.noise)
        return self._hits(
            evidence,
            prepared,
            whole.train,
            name="full-training",
            title=f"all examples: {evidence.recipe}",
            epochs=evidence.epochs,
        )[-1]

    def _hits(
        self,
        evidence: Evidence,
        data: TrainingData,
        judged: Dataset,
        *,
        name: str,
        title: str,
        stops: Stop = "never",
        epochs: int | None = None,
    ) -> Bool[Tensor, "epochs n"]:
        recipe, problem = RECIPES[evidence.recipe], self.problem
        config = recipe.config(problem.config)
        # As in the trials, without class weights: so the noise is that of the labels as given.
        objective = problem.objective(config, self.noise, data)
        if epochs is not None:
            config = config.model_copy(update={"epochs": epochs})
        network = recipe.network(problem.network, regularize=self.regularize)
        trial = Trial(
            replace(data, validation=None),
            judged,
            config,
            objective,
            copy.deepcopy(network),
            problem.session,
            stops=stops,
            title=title,
        )
        run = partial(trial.run, torch.arange(len(judged)), keeps_best_epoch=epochs is None)
        hits = problem.session.kept_or_computed(name, run).hits
        assert hits is not None
        return hits


def held_out_split(
    whole: TrainingData, prepared: TrainingData, seed: int
) -> tuple[TrainingData, Dataset]:
    """Return the examples to train on, and others: the validation split, or a tenth of the whole.

    Args:
        whole: all examples as given
        prepared: the examples with the weights and targets that a recipe uses
        seed: decides the tenth
    """
    if whole.validation is not None:
        return prepared, whole.validation
    assert whole.positions is not None
    assert prepared.positions is not None
    count = round(_HELD_OUT_SHARE * len(whole.train))
    chosen = stratified_indices(whole.train.labels, count, seed)
    is_kept = ~torch.isin(prepared.positions, whole.positions[chosen])
    return prepared.subset(is_kept), whole.train.subset(chosen)
