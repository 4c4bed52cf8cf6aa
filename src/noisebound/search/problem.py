"""A problem: examples, a network and a config, and what the config says of noise and classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from noisebound.checks import check_transition
from noisebound.data import Dataset, Splits
from noisebound.data.rows import SparseRows
from noisebound.errors import InvalidValueError
from noisebound.estimation import GivenRate, GivenTransition, Noise, OutOfFold
from noisebound.estimation.noise import balanced_weights
from noisebound.estimation.transitions import true_class_probabilities
from noisebound.models import DEFAULT_HEAD, ModelName, create_model, default_model
from noisebound.models.names import FOR_IMAGES
from noisebound.models.regularized import regularized
from noisebound.search.cross_fit import cross_fit, noise_plan
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.objective import Objective, ObjectiveFactory, make_objective
from noisebound.training.session import Session
from noisebound.training.trusted_labels import trusting
from noisebound.training.unfrozen import Unfrozen, frozen_config


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
    """

    data: TrainingData
    config: TrainingConfig
    network: nn.Module
    session: Session
    objective_factory: ObjectiveFactory = make_objective
    unfrozen: Unfrozen | None = None

    @property
    def head_config(self) -> TrainingConfig:
        """How networks are trained on `data` to estimate the noise."""
        return self.config if self.unfrozen is None else frozen_config(self.config)

    def out_of_fold(
        self, data: TrainingData, *, regularize: bool = False, name: str = ""
    ) -> OutOfFold:
        """Return the predictions of the cross-fit that estimates the noise."""
        plan = noise_plan(data, self.head_config, name)
        network = regularized(self.network) if regularize else self.network
        return cross_fit(data, plan, network, self.session)

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
