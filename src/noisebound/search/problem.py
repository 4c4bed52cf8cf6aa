"""A problem: examples, a network and a config, and what the config says of noise and classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from noisebound.checks import check_transition
from noisebound.data import Dataset, Splits
from noisebound.data.rows import SparseRows
from noisebound.errors import InvalidValueError
from noisebound.estimation import GivenRate, GivenTransition, Noise
from noisebound.estimation.noise import balanced_weights
from noisebound.estimation.predictions import are_several
from noisebound.estimation.transitions import true_class_probabilities
from noisebound.learners import (
    AnyEstimator,
    Boosting,
    EstimatorLearner,
    Learner,
    Linear,
    Neighbors,
    Network,
    Trees,
)
from noisebound.models import DEFAULT_HEAD, ModelName, create_model, default_model
from noisebound.models.names import FOR_IMAGES
from noisebound.models.regularized import can_be_regularized
from noisebound.search.recipes import (
    IMAGE_RECIPES,
    NETWORK_RECIPES,
    OF_SEVERAL_LABELS,
    RECIPES,
    Candidate,
    for_labels,
)
from noisebound.training.config import LABEL_USES, LearnerName, RecipeName, TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.fine_tuning import Unfrozen, frozen_config
from noisebound.training.objective import Objective, ObjectiveFactory, make_objective
from noisebound.training.session import Session
from noisebound.training.trusted_labels import trusting

_MOST_BOOSTED = 1_000
"""The most columns times classes that boosting is tried on unasked: it then takes 0.7 s for 500
examples, and other learners hundredths of that."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, the examples to train it on, and how to train.

    Args:
        data: the splits to train and evaluate on
        config: how to train
        network: the network before training; it, or its regularized copy, is trained in place
        session: the devices, and the keeper of finished folds and epochs
        objective_factory: makes the objective; by default the method that the config names
        unfrozen: the raw examples and their encoder, to fine-tune it with the network as its head;
            the noise is still estimated on `data`, the frozen embeddings
        estimator: the user's own, if the config's learner is ``"estimator"``
        fewest_epochs: no trial of a network stops before; set to the best epoch of plain training,
            since a recipe that learns slowly is compared with it at the same epoch
        regularize: True if the networks of all recipes but plain training are regularized
    """

    data: TrainingData
    config: TrainingConfig
    network: nn.Module
    session: Session
    objective_factory: ObjectiveFactory = make_objective
    unfrozen: Unfrozen | None = None
    estimator: Any = None
    fewest_epochs: int = 0
    regularize: bool = False

    @property
    def head_config(self) -> TrainingConfig:
        """How networks are trained on `data` to estimate the noise."""
        return self.config if self.unfrozen is None else frozen_config(self.config)

    @cached_property
    def learners(self) -> tuple[LearnerName, ...]:
        """The learners to try, a network first where there is one."""
        config, train = self.config, self.data.train
        if config.learner != "auto":
            return (config.learner,)
        if config.is_network or self.is_on_pixels:
            return ("network",)
        if config.quick:
            return ("linear", "trees", "neighbors")
        is_sparse = isinstance(train.inputs, SparseRows)
        is_quick = math.prod((*train.input_shape, train.num_classes)) <= _MOST_BOOSTED
        boosting: tuple[LearnerName, ...] = ("boosting",) if is_quick and not is_sparse else ()
        return ("network", "linear", *boosting, "trees", "neighbors")

    @property
    def can_regularize(self) -> bool:
        """True if regularized networks are tried too."""
        is_sparse = isinstance(self.data.train.inputs, SparseRows)
        return "network" in self.learners and can_be_regularized(self.network) and not is_sparse

    @property
    def is_on_pixels(self) -> bool:
        """True if the inputs are images, of which networks learn."""
        return len(self.data.train.input_shape) > 1

    def recipes(self, learner: LearnerName) -> tuple[RecipeName, ...]:
        """Return the recipes to try with a learner, beside plain training."""
        names = IMAGE_RECIPES if self.is_on_pixels else NETWORK_RECIPES
        if learner != "network" or len(self.learners) > 1:
            names = tuple(name for name in LABEL_USES[1:] if name not in OF_SEVERAL_LABELS)
            if learner == "network" and self.config.model == DEFAULT_HEAD:
                names = (*names, "elr")  # the best loss on embeddings in `results/pretrained`
        return for_labels(names, are_several=are_several(self.data.train.votes))

    def learner(self, candidate: Candidate, data: TrainingData, noise: Noise) -> Learner:
        """Return the untrained learner of a candidate.

        Args:
            candidate: the learner and the recipe
            data: the examples, with the weights and targets of the recipe
            noise: of the labels
        """
        other = self._other_learner(candidate.learner)
        if other is not None:
            return other
        recipe = RECIPES[candidate.recipe]
        config = recipe.config(self.head_config)
        return Network(
            recipe.network(self.network, regularize=self.regularize),
            config,
            self.objective(config, noise, data),
            self.session.of_trials,
            # Plain training is what all others are compared with, so it goes on to the end.
            fewest_epochs=None if candidate.recipe == "plain" else self.fewest_epochs,
        )

    def _other_learner(self, name: LearnerName) -> EstimatorLearner | Neighbors | None:
        """Return a learner that is no network, or None for a network."""
        match name:
            case "linear":
                return Linear()
            case "boosting":
                if isinstance(self.data.train.inputs, SparseRows):
                    raise InvalidValueError(
                        "boosting takes no sparse inputs, such as the words of texts: choose the "
                        "learner linear, trees or neighbors, or a backbone"
                    )
                return Boosting(columns=math.prod(self.data.train.input_shape))
            case "trees":
                return Trees()
            case "neighbors":
                return Neighbors()
            case "estimator":
                if self.estimator is None:
                    raise InvalidValueError(
                        "`learner` names no learner: give the estimator itself, in Python"
                    )
                return AnyEstimator(self.estimator)
        return None

    def setting(self, learner: LearnerName, stage: int) -> str:
        """Return the setting of a learner at a stage, in words; empty for a network."""
        other = self._other_learner(learner)
        return "" if other is None else other.describe(stage)

    def objective(self, config: TrainingConfig, noise: Noise, data: TrainingData) -> Objective:
        """Return the objective of a training on these examples, of which some may be checked."""
        train = data.train
        objective = self.objective_factory(config, train.num_classes, len(train), noise)
        if data.checked is None:
            return objective
        return trusting(objective, data.checked, train.weights, config)


def class_weights(config: TrainingConfig, train: Dataset) -> Float64[Tensor, " classes"] | None:
    """Return the weight of an example by the class of its label; None if all are 1."""
    given = config.class_weight
    if given is None:
        return None
    if given == "balanced":
        return balanced_weights(train.class_counts())
    unknown = sorted(set(given).difference(train.class_names))
    if unknown:
        raise InvalidValueError(
            f"`class_weight` names {unknown[0]!r}, which is not a class: the classes are "
            f"{', '.join(train.class_names[:20])}"
        )
    weights = torch.tensor([given.get(name, 1.0) for name in train.class_names]).double()
    if not (weights * train.class_counts()).any():
        raise InvalidValueError("`class_weight` is zero for every class that has examples")
    return weights


def known_noise(config: TrainingConfig, train: Dataset) -> Noise | None:
    """Return the noise that the config gives, if it does."""
    if config.transition is not None:
        return _given_transition(config.transition, train)
    if config.given_rate is not None:
        return GivenRate(config.given_rate, train.num_classes, config.bound_classes)
    return None


def _given_transition(given: Sequence[Sequence[float]], train: Dataset) -> GivenTransition:
    """Return the noise of a matrix; the true classes' shares follow from the labels' shares."""
    transition = check_transition(given)
    if len(transition) != train.num_classes:
        raise InvalidValueError(
            f"`transition` is of {len(transition)} classes, the data has {train.num_classes}"
        )
    shares = train.class_counts().double() / len(train)
    return GivenTransition(transition, true_class_probabilities(shares[None], transition)[0])


def with_head(config: TrainingConfig, splits: Splits) -> TrainingConfig:
    """Return the config with the usual head as its network, where the inputs are embeddings."""
    if splits.embedded_by is None or config.model != "auto":
        return config
    return config.model_copy(update={"model": DEFAULT_HEAD})


def takes_pixels(config: TrainingConfig) -> bool:
    """Return whether the config asks for a network on pixels, not on embeddings."""
    return config.model in FOR_IMAGES or (config.augment and not config.unfreeze)


def network_for(data: Dataset, config: TrainingConfig) -> nn.Module:
    """Return the untrained network that the config names, for inputs and classes like these."""
    return create_model(model_name(data, config), data.input_shape, data.num_classes, config.seed)


def model_name(data: Dataset, config: TrainingConfig) -> ModelName:
    """Return the name of the network; ``"auto"`` becomes one that fits the data."""
    if config.model != "auto":
        return config.model
    # Words and their weights are nearly separable: more layers cost much and gain nothing.
    return "linear" if isinstance(data.inputs, SparseRows) else default_model(data.input_shape)
