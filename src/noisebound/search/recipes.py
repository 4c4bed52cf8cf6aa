"""Recipes: which examples, weights, targets, loss and bound a training uses, and for how long."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.estimation import AnnotatorEstimate, EstimatedNoise
from noisebound.models.regularized import regularized
from noisebound.training.config import LearnerName, RecipeName, TrainingConfig
from noisebound.training.data import TrainingData

_LEAST_RATE = 0.01  # of errors; an annotator with less has no more weight; heuristic

LabelUse: TypeAlias = Literal[
    "as they are", "suspects dropped", "suspects replaced", "corrected", "votes", "consensus"
]
"""How suspect labels are used: as given; left out; replaced by out-of-fold predictions; or every
label is replaced by the probabilities of the true class. Of several labels per example: all of
them, weighted by annotator; or their consensus, to which out-of-fold predictions contribute."""


@dataclass(frozen=True)
class Recipe:
    """How a training uses labels, loss and bound; trials find where it stops.

    Args:
        name: its name
        label: the words that follow the name of a learner that trains by it
        loss: the loss of a network, with ``+b`` for its bound
        labels: how suspect labels are used
        is_regularized: True if its network always has dropout and factors of its inputs; that of
            any other recipe but plain training has them where they help
    """

    name: RecipeName
    label: str
    loss: str = "ce"
    labels: LabelUse = "as they are"
    is_regularized: bool = False

    @property
    def needs_noise(self) -> bool:
        """True if it uses an estimate of the noise."""
        return self.labels != "as they are" or self.loss.endswith("+b")

    def network(self, network: nn.Module, *, regularize: bool) -> nn.Module:
        """Return the network that a training by this recipe begins with.

        Args:
            network: the network as it was given
            regularize: True if regularized networks predict left-out labels better
        """
        is_asked_for = self.is_regularized or (regularize and self.name != "plain")
        return regularized(network) if is_asked_for else network

    def config(self, config: TrainingConfig) -> TrainingConfig:
        """Return the config of a network's training by this recipe."""
        changes = {
            "loss": self.loss,
            "recipe": None,
            "learner": "network",
            "noise_rate": "auto",
            "transition": None,
            "bound": None,
            "bound_classes": None,
            "bound_offset": 0.0,
        }
        return config.model_copy(update=changes)

    def prepare(self, data: TrainingData, noise: EstimatedNoise) -> TrainingData:
        """Return the training examples with the weights and targets that the recipe uses.

        Args:
            data: the examples as they are
            noise: the noise of the labels of ``data.train``, estimated out of fold
        """
        train = data.train
        match self.labels:
            case "as they are":
                return data
            case "suspects dropped":
                kept = ~noise.is_doubted
                # A class must not be left without examples.
                kept |= (train.subset(kept).class_counts() == 0)[train.labels]
                return data.subset(kept)
            case "suspects replaced":
                given = F.one_hot(train.labels, train.num_classes).double()
                targets = torch.where(noise.is_doubted[:, None], noise.calibrated, given)
            case "corrected":
                targets = noise.true_probabilities
            case "votes" | "consensus":
                if noise.annotators is None:  # too few of these have two labels
                    return data
                targets = noise.annotators.consensus
                if self.labels == "votes":
                    assert train.votes is not None
                    targets = _shares_of_votes(train.votes, noise.annotators)
                if data.checked is not None:
                    at = data.checked.is_trusted
                    targets = targets.clone()
                    targets[at] = F.one_hot(train.labels[at], train.num_classes).double()
        return replace(data, train=replace(train, targets=targets.float()))


def _shares_of_votes(
    votes: Int64[Tensor, "n annotators"], annotators: AnnotatorEstimate
) -> Float64[Tensor, "n classes"]:
    """Return the share of each class in the votes, weighted by annotator.

    The weight is the log-odds of a right label over that of one wrong class, as the best vote among
    independent annotators has it.
    """
    num_classes = len(annotators.class_prior)
    rates = annotators.error_rates.clamp(_LEAST_RATE, 1 - _LEAST_RATE)
    worth = ((1 - rates) * (num_classes - 1) / rates).log().clamp(min=_LEAST_RATE)
    weights = worth * (votes >= 0)
    totals = torch.zeros(len(votes), num_classes + 1, dtype=torch.float64)
    totals = totals.scatter_add(1, votes + 1, weights)[:, 1:]
    return totals / totals.sum(1, keepdim=True)


RECIPES: dict[RecipeName, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("plain", ""),
        Recipe("regularized", "", is_regularized=True),
        Recipe("gce", "with generalized cross-entropy", "gce"),
        Recipe("elr", "with early-learning regularization", "elr"),
        Recipe("sce+b", "with symmetric cross-entropy at the estimated noise floor", "sce+b"),
        Recipe("ce+b", "with cross-entropy at the estimated noise floor", "ce+b"),
        Recipe("dropped", "with suspect labels left out", labels="suspects dropped"),
        Recipe("replaced", "with suspect labels replaced", labels="suspects replaced"),
        Recipe("corrected", "with labels corrected to probabilities", labels="corrected"),
        Recipe("votes", "with all labels, weighted by annotator", labels="votes"),
        Recipe("consensus", "with the consensus of annotators and predictions", labels="consensus"),
    )
}
"""All recipes, the plainest first."""

NETWORK_RECIPES: tuple[RecipeName, ...] = tuple(RECIPES)[2:-2]
"""The recipes that are tried with a network beside plain training."""

IMAGE_RECIPES: tuple[RecipeName, ...] = ("elr", "sce+b", "dropped")
"""The same for networks on pixels, whose trainings take minutes."""

LEARNER_LABELS: dict[LearnerName, str] = {
    "network": "a network",
    "linear": "logistic regression",
    "boosting": "gradient boosting",
    "trees": "extremely randomized trees",
    "neighbors": "nearest neighbors",
    "estimator": "the given estimator",
}


OF_SEVERAL_LABELS: tuple[RecipeName, ...] = ("votes", "consensus")
"""The recipes for several labels per example. They take the place of the recipes that correct one
label per example by predictions alone."""

_ONE_LABEL: tuple[RecipeName, ...] = ("replaced", "corrected")


def for_labels(names: Iterable[RecipeName], *, are_several: bool) -> tuple[RecipeName, ...]:
    """Return the recipes to try, given one label per example or several."""
    if not are_several:
        return tuple(names)
    return (*(name for name in names if name not in _ONE_LABEL), *OF_SEVERAL_LABELS)


class Candidate(NamedTuple):
    """A learner and the recipe that it follows."""

    learner: LearnerName
    recipe: RecipeName

    @property
    def label(self) -> str:
        """A description for people."""
        return self.described(RECIPES[self.recipe].is_regularized)

    def described(self, is_regularized: bool) -> str:
        """Return a description of the candidate, whose network may be regularized."""
        learner = "a regularized network" if is_regularized else LEARNER_LABELS[self.learner]
        return f"{learner} {RECIPES[self.recipe].label}".strip()
