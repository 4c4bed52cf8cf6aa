"""From data to a trained network: choose a recipe, estimate the noise, plan the training, train."""

import warnings
from dataclasses import dataclass, replace
from functools import partial

from jaxtyping import Float64
from torch import Tensor, nn

from noisebound.data import Dataset, Splits
from noisebound.errors import InvalidValueError
from noisebound.estimation import (
    EstimatedNoise,
    EstimationMethod,
    Noise,
    UnknownNoise,
    UnknownNoiseWarning,
    estimated_noise,
)
from noisebound.estimation.estimated_noise import among_labels, noise_of_unchecked
from noisebound.estimation.noise import ClassWeightedNoise
from noisebound.search.choice import Choice, named_choice
from noisebound.search.confirmation import confirmed
from noisebound.search.cross_fit import FEWEST_EXAMPLES
from noisebound.search.problem import Problem, class_weights, known_noise, network_for
from noisebound.search.recipe_search import RecipeSearch, Searched
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData, split_validation
from noisebound.training.devices import first_rank_does
from noisebound.training.display import Display
from noisebound.training.loop import Training
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import Objective, check_method, needs_estimate
from noisebound.training.session import MEAN_PREDICTIONS, Session
from noisebound.training.state import TrainingState, initial_state
from noisebound.training.trusted_labels import (
    FEWEST_CHECKED,
    WEIGHTS,
    best_weight,
    judged_weights,
)

_TOO_FEW = f"fewer than {FEWEST_EXAMPLES} examples are too few to estimate noise or try recipes"


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
    return RecipeSearch(problem).run()


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
        choice = confirmed(problem, searched, noise)
    recipe_config = choice.recipe.config(config)
    if is_frozen:
        recipe_config = recipe_config.model_copy(update={"epochs": choice.chosen.epochs})
    return choice, recipe_config, choice.recipe.prepare(whole, noise)


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
        searched = RecipeSearch(problem).run_for_noise()
    return _cross_fitted(problem, searched, method)
