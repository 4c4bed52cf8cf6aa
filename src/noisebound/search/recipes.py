"""Recipes: which examples, weights, targets, loss and bound a training uses, and for how long."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from noisebound.estimation import EstimatedNoise
from noisebound.models.regularized import regularized
from noisebound.training.config import LABEL_USES, LearnerName, RecipeName, TrainingConfig
from noisebound.training.data import TrainingData

LabelUse: TypeAlias = Literal["as they are", "suspects dropped", "suspects replaced", "corrected"]
"""How suspect labels are used: as given; left out; replaced by out-of-fold predictions; or every
label is replaced by the probabilities of the true class."""


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
        return replace(data, train=replace(train, targets=targets.float()))


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
    )
}
"""All recipes, the plainest first."""

LEARNER_LABELS: dict[LearnerName, str] = {
    "network": "a network",
    "linear": "logistic regression",
    "boosting": "gradient boosting",
    "trees": "extremely randomized trees",
    "neighbors": "nearest neighbors",
    "estimator": "the given estimator",
}


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

    @property
    def is_plain(self) -> bool:
        """True if it learns the labels as they are."""
        return self.recipe in ("plain", "regularized")


def recipes_of(learner: LearnerName) -> tuple[RecipeName, ...]:
    """Return the recipes that a learner can follow."""
    return tuple(RECIPES) if learner == "network" else LABEL_USES
