"""From data to a trained network: choose a recipe, estimate the noise, plan the training, train."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from noisebound.estimation.estimated_noise import among_labels, noise_of_unchecked
from noisebound.estimation.noise import ClassWeightedNoise, balanced_weights
from noisebound.estimation.transitions import true_class_probabilities
from noisebound.models import DEFAULT_HEAD, ModelName, create_model, default_model
from noisebound.models.regularized import regularized
from noisebound.search.choice import Choice, named_choice
from noisebound.search.confirmation import (
    Finalist,
    held_out_labels,
    hits_on_held_out,
    hits_on_own,
)
from noisebound.search.cross_fit import FEWEST_EXAMPLES, cross_fit, noise_plan
from noisebound.search.evidence import Evidence
from noisebound.search.recipe_search import RecipeSearch, Searched
from noisebound.search.recipes import RECIPES, Recipe
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData, split_validation
from noisebound.training.devices import first_rank_does
from noisebound.training.display import Display
from noisebound.training.loop import Training
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import (
    Objective,
    ObjectiveFactory,
    check_method,
    make_objective,
    needs_estimate,
)
from noisebound.training.session import MEAN_PREDICTIONS, Session
from noisebound.training.state import TrainingState, initial_state
from noisebound.training.trusted_labels import (
    FEWEST_CHECKED,
    WEIGHTS,
    best_weight,
    judged_weights,
    trusting,
)
from noisebound.training.unfrozen import Unfrozen, frozen_config

_TOO_FEW = f"fewer than {FEWEST_EXAMPLES} examples are too few to estimate noise or try recipes"


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


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that decides the training itself.

    Args:
        whole: the splits as given, with the weights of checked labels
        data: the splits with the weights and targets of the recipe and of the classes
        config: how to train
        network: the network to train
        given_network: the network before a recipe regularized it
        objective: the loss and its bound
        noise: the noise of the labels
        seen_noise: the same noise, as a loss with class weights sees it
        choice: the recipe and the evidence for it, unless a loss was named
        checked_weight: how much a checked label counts
    """

    whole: TrainingData
    data: TrainingData
    config: TrainingConfig
    network: nn.Module
    given_network: nn.Module
    objective: Objective
    noise: Noise
    seen_noise: Noise
    choice: Choice | None
    checked_weight: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished training.

    Args:
        plan: everything that decided it
        state: the trained network
        history: the metrics of each epoch
    """

    plan: Plan
    state: TrainingState
    history: list[EpochMetrics]


def fit_network(problem: Problem) -> Fitted:
    """Plan the training and train."""
    return train(plan_training(problem), problem.session)


def plan_training(problem: Problem) -> Plan:
    """Choose a recipe and estimate the noise, as far as the config asks for it."""
    check_method(problem.config)
    weight = _checked_weight(problem)
    problem = replace(problem, data=problem.data.with_checked_weight(weight))
    whole = problem.data
    searched = _choose(problem)
    noise = known_noise(problem.config, whole.train) or _estimate(problem, searched)
    weights = class_weights(problem.config, whole.train)
    seen_noise = noise if weights is None else _weighted(noise, weights, whole)
    choice, config, data = None, problem.config, whole
    if searched is not None:
        choice, config, data = _by_recipe(problem, searched, noise)
    network = problem.network
    if choice is not None:
        network = choice.recipe.network(network, regularize=choice.regularize)
    data = data.with_class_weights(weights)
    objective = problem.objective(config, seen_noise, data)
    if problem.unfrozen is not None:
        problem.unfrozen.check_mixing(objective.mixes)
        network = problem.unfrozen.network(network, data.normalization)
        data = problem.unfrozen.data(data)
    return Plan(
        whole=whole,
        data=data,
        config=config,
        network=network,
        given_network=problem.network,
        objective=objective,
        noise=noise,
        seen_noise=seen_noise,
        choice=choice,
        checked_weight=weight,
    )


def train(plan: Plan, session: Session) -> Fitted:
    """Train as planned, from where an earlier attempt was interrupted."""
    devices, keeper, config = session.devices, session.keeper, plan.config
    examples = len(plan.data.train)
    state = initial_state(plan.network, plan.objective, config, examples, devices)
    session.state, session.history = state, keeper.resume(state)
    training = Training(state, plan.objective, plan.data, config, devices)
    with Display(str(config.loss_name), config.epochs, session.history, session.shows) as display:
        for metrics in training.epochs():
            session.history.append(metrics)
            is_last = metrics.epoch == config.epochs
            # No rank begins an epoch before the last one is kept.
            first_rank_does(devices, partial(keeper.keep_epoch, state, metrics, is_last=is_last))
            devices.log_dict(metrics.numbers(), step=metrics.epoch)
            display.update(metrics)
    return Fitted(plan, state, session.history)


def _checked_weight(problem: Problem) -> float:
    """Return the weight of checked labels that predicts such labels best."""
    data = problem.data
    if data.checked is None or len(data.train) < FEWEST_EXAMPLES:
        return 1.0
    if int(data.checked.is_trusted.sum()) < FEWEST_CHECKED:
        return 1.0
    evidence = judged_weights(
        {
            weight: problem.out_of_fold(data.with_checked_weight(weight), name=f"weight-{weight:g}")
            for weight in WEIGHTS
        }
    )
    return best_weight(evidence)


def _choose(problem: Problem) -> Searched | None:
    """Return the recipe by its name or by trials; None to train by the loss."""
    config = problem.config
    if config.method == "loss":
        return None
    if config.method != "auto":
        return Searched(named_choice(config.method, config.epochs))
    if len(problem.data.train) < FEWEST_EXAMPLES:
        return Searched(replace(named_choice("plain", config.epochs), untried_because=_TOO_FEW))
    return RecipeSearch(problem.data, problem.head_config, problem.network, problem.session).run()


def _estimate(problem: Problem, searched: Searched | None) -> Noise:
    train = problem.data.train
    if searched is None and not needs_estimate(problem.config):
        return UnknownNoise(train.num_classes)
    if len(train) < FEWEST_EXAMPLES:
        reason = (
            f"{len(train)} training examples are too few to estimate their noise, it takes "
            f"{FEWEST_EXAMPLES}: give `noise_rate`"
        )
        noise: Noise = UnknownNoise(train.num_classes, reason)
    else:
        noise = _cross_fitted(problem, searched)
    if not noise.is_known:
        warnings.warn(
            f"training as if there were no noise: {noise.warnings[-1]}",
            UnknownNoiseWarning,
            stacklevel=2,
        )
    return noise


def _cross_fitted(
    problem: Problem, searched: Searched | None, method: EstimationMethod = "agreement"
) -> Noise:
    regularize = searched is not None and searched.choice.regularize
    found = problem.out_of_fold(problem.data, regularize=regularize)
    noise: Noise
    if searched is None:
        noise = estimated_noise(found, method)
    else:  # the trials have shown whether the estimate is useful, so nothing rejects it
        noise = EstimatedNoise.of(found, method, others=searched.predictions)
        if searched.predictions:
            assert noise.out_of_fold is not None
            problem.session.keep(MEAN_PREDICTIONS, noise.out_of_fold)
    checked, validation = problem.data.checked, problem.data.validation
    noise = noise if checked is None else noise_of_unchecked(noise, checked)
    return among_labels(noise, len(found.labels) + (0 if validation is None else len(validation)))


def _weighted(noise: Noise, weights: Float64[Tensor, " classes"], whole: TrainingData) -> Noise:
    """Return the noise as a loss with class weights sees it; it is estimated without them."""
    noisy = whole.train
    if whole.checked is not None:
        noisy = noisy.subset(~whole.checked.is_trusted)
    shares = noisy.class_counts().double() / max(1, len(noisy))
    return ClassWeightedNoise(noise, weights, shares)


def _by_recipe(
    problem: Problem, searched: Searched, noise: Noise
) -> tuple[Choice, TrainingConfig, TrainingData]:
    """Return the final choice, and the config and examples of a training by it."""
    choice, whole, config = searched.choice, problem.data, problem.config
    if not isinstance(noise, EstimatedNoise):  # there are too few examples
        if choice.recipe.needs_noise:
            choice = replace(named_choice("plain", config.epochs), untried_because=_TOO_FEW)
        return choice, choice.recipe.config(config), whole
    is_frozen = problem.unfrozen is None
    # Heads on all examples show nothing of an encoder that is trained with them.
    if is_frozen and choice.tried:
        choice = _confirmed(problem, searched, noise)
    recipe_config = choice.recipe.config(config)
    if is_frozen:
        recipe_config = recipe_config.model_copy(update={"epochs": choice.chosen.epochs})
    return choice, recipe_config, choice.recipe.prepare(whole, noise)


def _confirmed(problem: Problem, searched: Searched, noise: EstimatedNoise) -> Choice:
    """Return the choice after trainings on all examples, where these can change it."""
    choice, whole, session = searched.choice, problem.data, problem.session

    def finalist(evidence: Evidence) -> Finalist:
        recipe: Recipe = RECIPES[evidence.recipe]
        config = recipe.config(problem.config)
        return Finalist(
            evidence,
            recipe.prepare(whole, noise),
            config,
            recipe.network(problem.network, regularize=choice.regularize),
            # As in the trials, without class weights: so the noise is that of the labels as given.
            partial(problem.objective, config, noise),
        )

    finalists = choice.finalists
    if searched.saw_all:
        if choice.is_plain:
            return choice
        return choice.after_rehearsal(hits_on_own(whole, finalist(finalists[0]), session))
    if len(finalists) == 1 and not choice.chosen.stops_early:
        return choice
    hits = [hits_on_held_out(whole, finalist(each), session) for each in finalists]
    return choice.after_finals(hits, held_out_labels(whole, problem.config.seed))


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
    data: Splits | Dataset,
    config: TrainingConfig,
    *,
    method: EstimationMethod = "agreement",
    session: Session | None = None,
) -> Noise:
    """Return how noisy the labels of a data set are: the noise that `fit` would find.

    Args:
        data: the examples, as `noisebound.data.load` returns them; as in `fit`, the estimate leaves
            out the validation split
        config: the training to estimate the noise for. With the method
            ``"auto"``, the default, trials of plain training add second predictions
        method: the estimator
        session: the devices and the progress display; one device by default
    """
    splits = data if isinstance(data, Splits) else Splits("data", data, None, "memory")
    part, _ = split_validation(splits, config)
    if len(part.train) < FEWEST_EXAMPLES:
        raise InvalidValueError(
            f"{len(part.train)} training examples are too few to estimate their noise, it takes "
            f"{FEWEST_EXAMPLES}"
        )
    problem = Problem(part, config, network_for(part.train, config), session or Session())
    searched = None
    if config.method == "auto":
        searched = RecipeSearch(part, config, problem.network, problem.session).run_for_noise()
    return _cross_fitted(problem, searched, method)
