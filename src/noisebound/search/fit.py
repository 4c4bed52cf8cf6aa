"""From data to a trained network: estimate the noise if need be, make the objective, train."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from noisebound.checks import check_transition
from noisebound.data import Dataset, Splits
from noisebound.data.rows import SparseRows
from noisebound.errors import InvalidValueError
from noisebound.estimation import (
    EstimatedNoise,
    EstimationMethod,
    GivenRate,
    GivenTransition,
    Noise,
    OutOfFold,
    UnknownNoise,
    UnknownNoiseWarning,
    estimated_noise,
)
from noisebound.estimation.checked import noise_of_unchecked
from noisebound.estimation.class_weights import ClassWeightedNoise, balanced_weights
from noisebound.estimation.true_class import true_class_probabilities
from noisebound.models import DEFAULT_HEAD, ModelName, create_model, default_model
from noisebound.models.regularized import regularized
from noisebound.search.choice import Choice, named_choice
from noisebound.search.confirmation import Finalist, Finals
from noisebound.search.cross_fit import FEWEST_EXAMPLES, CrossFit, noise_plan
from noisebound.search.evidence import Evidence
from noisebound.search.recipe_search import RecipeSearch
from noisebound.search.recipes import RECIPES, Recipe
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import Devices, OneDevice, first_rank_does
from noisebound.training.display import Display
from noisebound.training.keeper import MEAN_OPINION, NOTHING_KEPT, Keeper
from noisebound.training.loop import Training
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import (
    Objective,
    ObjectiveFactory,
    check_method,
    make_objective,
    needs_estimate,
)
from noisebound.training.state import TrainingState, initial_state
from noisebound.training.trusted_labels import (
    FEWEST_CHECKED,
    WEIGHTS,
    WeightEvidence,
    best_weight,
    judged_weights,
    trusting,
)
from noisebound.training.unfrozen import Unfrozen, frozen_config

_TOO_FEW = f"fewer than {FEWEST_EXAMPLES} examples are too few to estimate noise or try recipes"


class Fitting:
    """A training from data to a trained network, whose parts can be read when it is interrupted.

    Args:
        data: the splits to train and evaluate on
        config: how to train
        network: the network before training; it, or its regularized copy, is trained in place
        devices: launched; one device by default
        trial_devices: launched; for networks that only tell which recipe is best and how noisy the
            labels are, which may need less precision; the same by default
        keeper: keeps finished folds and epochs, so that an interrupted training goes on
        objective_factory: makes the objective; by default the method that the config names
        show: True to draw the loss as it falls, where someone is looking
        unfrozen: the raw examples and their encoder, to fine-tune it with the network as its head;
            the noise is still estimated on `data`, the frozen embeddings
    """

    def __init__(
        self,
        data: TrainingData,
        config: TrainingConfig,
        network: nn.Module,
        *,
        devices: Devices | None = None,
        trial_devices: Devices | None = None,
        keeper: Keeper = NOTHING_KEPT,
        objective_factory: ObjectiveFactory = make_objective,
        show: bool = True,
        unfrozen: Unfrozen | None = None,
    ) -> None:
        self.data, self.config, self.network = data, config, network
        self.devices = devices or OneDevice()
        self.trial_devices = trial_devices or self.devices
        self.keeper, self.show = keeper, show
        self.objective_factory, self.unfrozen = objective_factory, unfrozen
        self.search: RecipeSearch | None = None
        self.finals: Finals | None = None
        self.cross_fit: CrossFit | None = None
        self.choice: Choice | None = None
        self.noise: Noise | None = None
        self.seen_noise: Noise | None = None
        self.objective: Objective | None = None
        self.state: TrainingState | None = None
        self.history: list[EpochMetrics] = []
        self.checked_weight = 1.0
        self.weight_evidence: list[WeightEvidence] = []

    def run(self) -> "Fitting":
        """Do what is not done yet."""
        check_method(self.config)
        self.data = self._with_checked_weight()
        self.choice = self._choose()
        whole = self.data.train
        self.noise = known_noise(self.config, whole) or self._estimate()
        weights = class_weights(self.config, whole)
        self.seen_noise = self.noise
        if weights is not None:  # the noise is estimated without them, and then seen through them
            noisy = whole
            if self.data.checked is not None:
                noisy = whole.subset(~self.data.checked.is_trusted)
            shares = noisy.class_counts().double() / max(1, len(noisy))
            self.seen_noise = ClassWeightedNoise(self.noise, weights, shares)
        config, data = self._by_recipe(self.noise)
        train, network = (
            data.train,
            self._network_by(self.choice.recipe) if self.choice else self.network,
        )
        data = data.with_class_weights(weights)
        self.objective = self._objective(config, self.seen_noise, data)
        if self.unfrozen is not None:
            self.unfrozen.check_mixing(self.objective.mixes)
            network = self.unfrozen.network(network, data.normalization)
            data = self.unfrozen.data(data)
        self.state = initial_state(network, self.objective, config, len(train), self.devices)
        self.history = self.keeper.resume(self.state)
        training = Training(self.state, self.objective, data, config, self.devices)
        show = self.show and self.devices.is_global_zero
        with Display(config.loss, config.epochs, self.history, show) as display:
            for metrics in training.epochs():
                self.history.append(metrics)
                is_last = metrics.epoch == config.epochs
                # No rank begins an epoch before the last one is kept.
                first_rank_does(
                    self.devices,
                    partial(self.keeper.keep_epoch, self.state, metrics, is_last=is_last),
                )
                self.devices.log_dict(metrics.numbers(), step=metrics.epoch)
                display.update(metrics)
        return self

    def _choose(self) -> Choice | None:
        """Return the recipe by its name or by trials; None to train by the loss."""
        config = self.config
        if config.recipe is None:
            return None
        if config.recipe != "auto":
            return named_choice(config.recipe, config.epochs)
        if len(self.data.train) < FEWEST_EXAMPLES:
            return replace(named_choice("plain", config.epochs), untried_because=_TOO_FEW)
        self.search = RecipeSearch(
            self.data,
            self._head_config,
            self.network,
            self.trial_devices,
            keeper=self.keeper,
            show=self.show,
        )
        return self.search.choose()

    def _by_recipe(self, noise: Noise) -> tuple[TrainingConfig, TrainingData]:
        """Return the config and the examples of the training itself."""
        if self.choice is None:
            return self.config, self.data
        if not isinstance(noise, EstimatedNoise):  # of too few examples nothing is known
            if self.choice.recipe.needs_noise:
                plain = named_choice("plain", self.config.epochs)
                self.choice = replace(plain, untried_because=_TOO_FEW)
            return self.choice.recipe.config(self.config), self.data
        # What heads do on all examples says nothing of what an encoder does.
        if self.unfrozen is None and self.search is not None:
            self.choice = self._on_all_examples(self.choice, noise, self.search)
        config = self.choice.recipe.config(self.config)
        data = self.choice.recipe.prepare(self.data, noise)
        if self.unfrozen is None:
            config = config.model_copy(update={"epochs": self.choice.chosen.epochs})
        return config, data

    def _on_all_examples(
        self, choice: Choice, noise: EstimatedNoise, search: RecipeSearch
    ) -> Choice:
        """Return the choice when all examples have said what they have to say."""
        finalists = choice.finalists
        if search.has_seen_all:
            if choice.is_plain:
                return choice
            return choice.after_rehearsal(self._finals(finalists[:1], noise).rehearsal(self.keeper))
        if len(finalists) > 1 or choice.chosen.stops_early:
            finals = self._finals(finalists, noise)
            return choice.after_finals(finals.hits(self.keeper), finals.labels)
        return choice

    def _finals(self, finalists: Sequence[Evidence], noise: EstimatedNoise) -> Finals:
        self.finals = Finals(
            self.data,
            [self._finalist(evidence, noise) for evidence in finalists],
            self.trial_devices,
            show=self.show,
        )
        return self.finals

    def _finalist(self, evidence: Evidence, noise: EstimatedNoise) -> Finalist:
        recipe = RECIPES[evidence.recipe]
        config, data = recipe.config(self.config), recipe.prepare(self.data, noise)
        # As in the trials before, classes count alike: so these examples are of the noise itself.
        make_objective = partial(self._objective, config, noise)
        return Finalist(evidence, data, config, self._network_by(recipe), make_objective)

    def _network_by(self, recipe: Recipe) -> nn.Module:
        """Return the network that a training by a recipe begins with."""
        assert self.choice is not None
        return recipe.network(self.network, regularize=self.choice.regularize)

    def _objective(self, config: TrainingConfig, noise: Noise, data: TrainingData) -> Objective:
        """Return the objective of a training on these examples, of which some may be checked."""
        train = data.train
        objective = self.objective_factory(config, train.num_classes, len(train), noise)
        if data.checked is None:
            return objective
        return trusting(objective, data.checked, train.weights, config)

    @property
    def _head_config(self) -> TrainingConfig:
        """How networks are trained on `data` to learn of the noise."""
        return self.config if self.unfrozen is None else frozen_config(self.config)

    def _estimate(self) -> Noise:
        train = self.data.train
        if self.choice is None and not needs_estimate(self.config):
            return UnknownNoise(train.num_classes)
        if len(train) < FEWEST_EXAMPLES:
            reason = (
                f"{len(train)} training examples are too few to estimate their noise, it takes "
                f"{FEWEST_EXAMPLES}: give `noise_rate`"
            )
            noise: Noise = UnknownNoise(train.num_classes, reason)
        else:
            noise = self._cross_fitted()
        if not noise.is_known:
            warnings.warn(
                f"training as if there were no noise: {noise.warnings[-1]}",
                UnknownNoiseWarning,
                stacklevel=2,
            )
        return noise

    def _cross_fitted(self) -> Noise:
        found = self._out_of_fold(self.data)
        noise = self._noise_shown_by(found)
        return noise if self.data.checked is None else noise_of_unchecked(noise, self.data.checked)

    def _noise_shown_by(self, found: OutOfFold) -> Noise:
        if self.choice is None:
            return estimated_noise(found)
        # Trials have shown what the estimate is good for, so that a recipe need not ask.
        opinions = [] if self.search is None else self.search.opinions
        noise = EstimatedNoise.of(found, others=opinions)
        if opinions:
            assert noise.out_of_fold is not None
            keep = partial(self.keeper.keep_out_of_fold, MEAN_OPINION, noise.out_of_fold)
            first_rank_does(self.trial_devices, keep)
        return noise

    def _out_of_fold(self, data: TrainingData, name: str = "") -> OutOfFold:
        plan = replace(noise_plan(data, self._head_config), name=name)
        regularize = self.choice is not None and self.choice.regularize
        network = regularized(self.network) if regularize else self.network
        self.cross_fit = CrossFit(
            data, plan, network, self.trial_devices, keeper=self.keeper, show=self.show
        )
        return self.cross_fit.out_of_fold()

    def _with_checked_weight(self) -> TrainingData:
        """Return the data with the weight of checked labels that predicts such labels best."""
        checked = self.data.checked
        if checked is None or len(self.data.train) < FEWEST_EXAMPLES:
            return self.data
        if int(checked.is_trusted.sum()) < FEWEST_CHECKED:
            return self.data
        weighted = {weight: self.data.with_checked_weight(weight) for weight in WEIGHTS}
        self.weight_evidence = judged_weights(
            {
                weight: self._out_of_fold(data, f"weight-{weight:g}")
                for weight, data in weighted.items()
            }
        )
        self.checked_weight = best_weight(self.weight_evidence)
        return weighted[self.checked_weight]

    @property
    def latest_state(self) -> TrainingState | None:
        """The state of the training, or of the network that was estimating the noise before it."""
        final = None if self.finals is None else self.finals.trial
        before = (each.state for each in (final, self.cross_fit, self.search) if each is not None)
        return self.state or next(before, None)


def class_weights(config: TrainingConfig, train: Dataset) -> Float64[Tensor, " classes"] | None:
    """Return how much an example counts, by the class of its label; None if all count alike."""
    given = config.class_weight
    if given is None:
        return None
    if given == "balanced":
        return balanced_weights(train.class_counts())
    unknown = sorted(set(given).difference(train.class_names))
    if unknown:
        raise InvalidValueError(
            f"`class_weight` names {unknown[0]!r}, which is no class: the classes are "
            f"{', '.join(train.class_names[:20])}"
        )
    weights = torch.tensor([given.get(name, 1.0) for name in train.class_names]).double()
    if not (weights * train.class_counts()).any():
        raise InvalidValueError("`class_weight` is zero for every class that has examples")
    return weights


def known_noise(config: TrainingConfig, train: Dataset) -> Noise | None:
    """Return the noise that the config gives; None if it gives none."""
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


def network_for(data: Dataset, config: TrainingConfig) -> nn.Module:
    """Return the untrained network that the config names, for inputs and classes like these."""
    return create_model(model_name(data, config), data.input_shape, data.num_classes, config.seed)


def model_name(data: Dataset, config: TrainingConfig) -> ModelName:
    """Return the name of the network; ``"auto"`` becomes one that fits the data."""
    if config.model != "auto":
        return config.model
    # Words and their weights are nearly separable: more layers cost much and gain nothing.
    return "linear" if isinstance(data.inputs, SparseRows) else default_model(data.input_shape)


def estimate_label_noise(
    train: Dataset,
    config: TrainingConfig,
    *,
    method: EstimationMethod = "agreement",
    devices: Devices | None = None,
    show: bool = True,
) -> Noise:
    """Return how noisy the labels of a data set are, by two networks that each see one half.

    Args:
        train: the examples
        config: of a training whose ``"auto"`` this would be: the network, its learning rate, and
            the epochs, of which about a quarter is done
        method: the estimator
        devices: launched; one device by default
        show: True to draw the loss as it falls, where someone is looking
    """
    data = TrainingData.unsplit(train)
    if len(train) < FEWEST_EXAMPLES:
        raise InvalidValueError(
            f"{len(train)} training examples are too few to estimate their noise, it takes "
            f"{FEWEST_EXAMPLES}"
        )
    network = network_for(train, config)
    fitter = CrossFit(data, noise_plan(data, config), network, devices or OneDevice(), show=show)
    return estimated_noise(fitter.out_of_fold(), method)
