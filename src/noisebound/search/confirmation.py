"""Trainings on all examples, where the trials saw a part of them: where do the members stop?

Each member is trained on all examples but some that are held out, and these decide its stage. A
member that is clearly behind another on all examples is left out.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.estimation.predictions import hits_of
from noisebound.learners.network import judged_epochs
from noisebound.search.choice import Choice
from noisebound.search.cross_fit import smooth
from noisebound.search.evidence import Evidence, is_behind
from noisebound.search.problem import Problem
from noisebound.search.recipes import RECIPES
from noisebound.training.data import TrainingData

_HELD_OUT_SHARE = 0.1  # of the examples, without a validation split; heuristic
_NEAR_ERRORS = 0.5  # standard errors of a difference
# Chosen on heads on 6,000 and 15,000 embeddings of CIFAR-10 (symmetric, pairwise, human aggregate,
# clean): on average 0.5 points below the best epoch of all, 1.9 at most; the epoch of most
# agreement was 0.8 below, 5.0 at most.


def confirmed(problem: Problem, choice: Choice, noise: EstimatedNoise) -> Choice:
    """Return the choice with the stages that suit all examples."""
    if choice.is_plain:
        return choice
    found = [_on_all(problem, member, noise) for member in choice.members]
    last = [each.are_hits.double() for each in found]
    best = max(last, key=lambda hits: hits.mean().item())
    epochs = judged_epochs(problem.head_config.epochs)
    kept = []
    for member, result, hits in zip(choice.members, found, last, strict=True):
        if is_behind(hits, best):
            continue
        assert result.hits is not None
        stage = soonest_agreeing(result.hits)
        if member.learner == "network":
            stops = stage < len(epochs) - 1
            member = replace(member, epochs=epochs[stage], stops_early=stops)
        setting = problem.setting(member.learner, stage)
        kept.append(replace(member, stage=stage, setting=setting))
    return replace(choice, members=tuple(kept))


def _on_all(problem: Problem, member: Evidence, noise: EstimatedNoise) -> OutOfFold:
    """Train a member on all examples but some, and predict these at each stage."""

    def train() -> OutOfFold:
        whole, seed = problem.data, problem.config.seed
        prepared = RECIPES[member.recipe].prepare(whole, noise)
        data, held_out = held_out_split(whole, prepared, seed)
        learner = problem.learner(member.candidate, data, noise)
        (staged,) = learner.predict_stages(data, [replace(held_out, true_labels=None)], seed)
        alike, votes = held_out.counts_alike, held_out.votes
        hits = hits_of(staged.argmax(2), held_out.labels, votes, alike=alike)
        probs = staged[soonest_agreeing(hits)].clamp(min=torch.finfo(torch.float32).tiny)
        places = torch.arange(len(held_out))
        found = OutOfFold(probs.log(), held_out.labels, places, hits=hits, votes=votes)
        return replace(found, counts_alike=alike)

    name = f"all-{member.learner}-{member.recipe}"
    return problem.session.kept_or_computed(name, train)


def soonest_agreeing(hits: Bool[Tensor, "stages n"] | Float[Tensor, "stages n"]) -> int:
    """Return the first stage that predicts about as many labels as any.

    A training that is too long memorizes, and the labels that would show it are noisy and few. So
    this is the first stage that is behind the best by less than chance explains.

    Args:
        hits: whether each held-out label was predicted, or which share of them, at each stage
    """
    found = hits.double()
    agreement = smooth(found.mean(1))
    best = int(agreement.argmax())
    errors = (found[best] - found).std(dim=1, correction=0) / found.shape[1] ** 0.5
    is_near = agreement[best] - agreement <= _NEAR_ERRORS * errors
    return int(is_near.int().argmax())


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
    chosen = stratified_indices(whole.train.labels, count, seed, whole.train.groups)
    is_kept = ~torch.isin(prepared.positions, whole.positions[chosen])
    return prepared.subset(is_kept), whole.train.subset(chosen)
