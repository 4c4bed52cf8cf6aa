"""From data to a trained model: choose what to train, estimate the noise, plan, train."""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxtyping import Float64
from torch import Tensor, nn

from noisebound.data import Dataset, Splits
from noisebound.errors import InvalidValueError
from noisebound.estimation import (
    EstimatedNoise,
    EstimationMethod,
    Noise,
    OutOfFold,
    UnknownNoise,
    UnknownNoiseWarning,
    estimated_noise,
)
from noisebound.estimation.estimated_noise import among_labels, noise_of_unchecked
from noisebound.estimation.noise import class_weighted
from noisebound.estimation.predictions import FEWEST_JUDGED, are_several
from noisebound.learners import EstimatorLearner, Neighbors
from noisebound.learners.stored import joined
from noisebound.losses import CrossEntropy
from noisebound.models.regularized import without_factors
from noisebound.search.choice import Choice
from noisebound.search.confirmation import confirmed
from noisebound.search.cross_fit import FEWEST_EXAMPLES, cross_fit, half_folds, some_examples
from noisebound.search.evidence import Evidence
from noisebound.search.problem import Problem, class_weights, known_noise, network_for
from noisebound.search.recipes import OF_SEVERAL_LABELS, RECIPES, Candidate
from noisebound.search.search import Search, Searched, prepared
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData, split_validation
from noisebound.training.devices import first_rank_does
from noisebound.training.evaluation import EvaluationSet, Evaluator
from noisebound.training.fine_tuning import FineTuned
from noisebound.training.loop import Training
from noisebound.training.metrics import Display, EpochMetrics
from noisebound.training.objective import Objective
from noisebound.training.session import MEAN_PREDICTIONS, Session
from noisebound.training.state import TrainingState, initial_state
from noisebound.training.trusted_labels import FEWEST_CHECKED, WEIGHTS, best_weight

_USUAL_PART = 1 / 4
_FEWEST_EPOCHS = 12  # heuristic
_LARGEST_PART = 3 / 8
"""A network that only estimates the noise trains for a quarter of the epochs, but for at least 12
and at most three eighths. Two halves and their evaluation then cost about half of the training that
they serve (0.48 to 0.50 in the worst case, `benchmarks/estimating.py`)."""

_TOO_FEW = f"fewer than {FEWEST_EXAMPLES} examples are too few to estimate noise or try recipes"


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that decides the training itself.

    Args:
        whole: the splits as given, with the weights of checked labels
        data: the splits with the weights and targets of the network's recipe and of the classes
        config: how to train the network
        network: the network to train, or None if only other learners are trained
        given_network: the network before a recipe regularized it
        objective: the network's loss and its bound; else plain cross-entropy
        others: the untrained learners beside the network, each with its examples and its stage
        noise: the noise of the labels
        seen_noise: the same noise, as a loss with class weights sees it
        choice: what to train and the evidence for it, unless a loss was named
        checked_weight: how much a checked label counts
    """

    whole: TrainingData
    data: TrainingData
    config: TrainingConfig
    network: nn.Module | None
    given_network: nn.Module
    objective: Objective
    others: tuple["PlannedLearner", ...]
    noise: Noise
    seen_noise: Noise
    choice: Choice | None
    checked_weight: float


@dataclass(frozen=True, eq=False)
class PlannedLearner:
    """A learner, the examples it trains on, and the stage at which it stops."""

    learner: EstimatorLearner | Neighbors
    data: TrainingData
    stage: int


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished training.

    Args:
        plan: everything that decided it
        model: the trained network, another fitted learner, or an ensemble of them
        history: the metrics of each epoch of the network, if there is one
        final: the metrics of the model
    """

    plan: Plan
    model: nn.Module
    history: list[EpochMetrics]
    final: EpochMetrics


def fit_network(problem: Problem) -> Fitted:
    """Plan the training and train."""
    return train(plan_training(problem), problem.session)


def plan_training(problem: Problem) -> Plan:
    """Choose what to train and estimate the noise, as far as the config asks for it."""
    weight = _checked_weight(problem)
    problem = replace(problem, data=problem.data.with_checked_weight(weight))
    whole = problem.data
    searched = _choose(problem)
    if searched is not None:
        problem = replace(problem, regularize=searched.choice.regularize)
    noise = known_noise(problem.config, whole.train) or _estimate(problem, searched)
    weights = class_weights(problem.config, whole.train)
    seen_noise = noise if weights is None else _weighted(noise, weights, whole)
    choice = None if searched is None else _final_choice(problem, searched, noise)
    config, data = problem.config, whole
    network: nn.Module | None = problem.network
    member = None if choice is None else choice.network
    if member is not None and choice is not None:
        recipe = RECIPES[member.recipe]
        config, data = recipe.config(config), _prepared(member, whole, noise)
        if problem.unfrozen is None:
            config = config.model_copy(update={"epochs": member.epochs})
        network = recipe.network(problem.network, regularize=problem.regularize)
    elif choice is not None:
        config, network = RECIPES["plain"].config(config), None
    data = data.with_class_weights(weights)
    objective = problem.objective(config, seen_noise, data)
    if problem.unfrozen is not None and network is not None:
        problem.unfrozen.check_mixing(objective.mixes)
        network = problem.unfrozen.network(network, data.normalization)
        data = problem.unfrozen.data(data)
    others = []
    for each in () if choice is None else choice.members:
        if each.learner != "network":
            own = _prepared(each, whole, noise).with_class_weights(weights)
            learner = problem.learner(each.candidate, own, noise)
            assert isinstance(learner, EstimatorLearner | Neighbors)
            others.append(PlannedLearner(learner, own, each.stage))
    return Plan(
        whole=whole,
        data=data,
        config=config,
        network=network,
        given_network=problem.network,
        objective=objective,
        others=tuple(others),
        noise=noise,
        seen_noise=seen_noise,
        choice=choice,
        checked_weight=weight,
    )


def train(plan: Plan, session: Session) -> Fitted:
    """Train as planned, from where an earlier attempt was interrupted."""
    members: list[nn.Module] = []
    session.history = []
    if plan.network is not None:
        state = _train_network(plan, plan.network, session)
        best = state.best_model.cpu()
        is_tuned = isinstance(best, FineTuned)
        members.append(best if is_tuned else without_factors(best, plan.given_network))
    for planned in plan.others:
        members.append(planned.learner.fit(planned.data, planned.stage, plan.config.seed))
    if not plan.others:
        return Fitted(plan, members[0], session.history, session.history[-1])
    model = joined(members)
    final = _evaluated(plan, model, session)
    session.log(final, prefix="final_")  # the epochs above are those of a network alone
    return Fitted(plan, model, session.history, final)


def _train_network(plan: Plan, network: nn.Module, session: Session) -> TrainingState:
    devices, keeper, config = session.devices, session.keeper, plan.config
    state = initial_state(network, plan.objective, config, len(plan.data.train), devices)
    session.state, session.history = state, keeper.resume(state)
    training = Training(state, plan.objective, plan.data, config, devices)
    with Display(str(config.loss_name), config.epochs, session.shows) as display:
        for metrics in training.epochs():
            session.history.append(metrics)
            is_last = metrics.epoch == config.epochs
            # No rank begins an epoch before the last one is kept.
            first_rank_does(devices, partial(keeper.keep_epoch, state, metrics, is_last=is_last))
            session.log(metrics)
            display.show_epoch(metrics)
    return state


def _evaluated(plan: Plan, model: nn.Module, session: Session) -> EpochMetrics:
    """Return the metrics of a model that is not a network alone."""
    whole, devices, loss = plan.whole, session.devices, CrossEntropy()
    found: dict[str, Any] = Evaluator(whole, loss, devices).evaluate(model, None)
    some = some_examples(whole.train, plan.config.seed)
    own = EvaluationSet(some, whole.normalization, devices).evaluate(model, loss)
    epoch = session.history[-1].epoch if session.history else 1
    return EpochMetrics(epoch=epoch, learning_rate=0.0, train_loss=own["loss"] or 0.0, **found)


def _checked_weight(problem: Problem) -> float:
    """Return the weight of checked labels that predicts such labels best."""
    data = problem.data
    if data.checked is None or len(data.train) < FEWEST_EXAMPLES:
        return 1.0
    if int(data.checked.is_trusted.sum()) < FEWEST_CHECKED:
        return 1.0
    return best_weight(
        {
            weight: _out_of_fold(
                replace(problem, data=data.with_checked_weight(weight)),
                Candidate(problem.learners[0], "plain"),
                name=f"weight-{weight:g}",
            )
            for weight in WEIGHTS
        }
    )


def _choose(problem: Problem) -> Searched | None:
    """Return the recipe by its name or by trials; None to train by the loss."""
    config = problem.config
    if config.method in OF_SEVERAL_LABELS and not are_several(problem.data.train.votes):
        raise InvalidValueError(
            f"the recipe {config.method!r} is for several labels per example, and fewer than "
            f"{FEWEST_JUDGED} training examples have two: choose another recipe, or name all "
            "columns of labels as `target`"
        )
    if config.method == "loss":
        return None
    if config.method != "auto" and problem.learners == ("network",):
        return Searched(Choice.named(config.method, config.epochs))
    if len(problem.data.train) < FEWEST_EXAMPLES:
        return _choose_for_few(problem)
    return Search(problem).run()


def _choose_for_few(problem: Problem) -> Searched:
    """Return plain training; trials only find the stage of a learner that was asked for."""
    if problem.learners[0] == "network":
        return Searched(Choice.named("plain", problem.config.epochs, _TOO_FEW))
    config = problem.config.model_copy(update={"quick": True, "recipe": None})
    found = Search(replace(problem, config=config)).run()
    choice = replace(found.choice, untried_because=_TOO_FEW, is_named=True)
    return replace(found, choice=choice)


def _estimate(problem: Problem, searched: Searched | None) -> Noise:
    train = problem.data.train
    config = problem.config
    if searched is None and not (config.asks_for_estimate and config.needs_noise):
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
    noise: Noise
    if searched is None or not searched.leaders:
        found = _out_of_fold(problem, Candidate("network", "plain"))
        named = EstimatedNoise.of(found, method)
        noise = estimated_noise(found, method) if searched is None else named
    else:  # the trials have shown whether the estimate is useful, so nothing rejects it
        first, *others = searched.predictions or (_by_leaders(problem, searched),)
        noise = EstimatedNoise.of(first, method, others=others)
        if searched.by_members and noise.annotators is None:
            noise = noise.judged_by(searched.by_members)
        assert noise.out_of_fold is not None
        problem.session.keep(MEAN_PREDICTIONS, noise.out_of_fold)
    checked, validation = problem.data.checked, problem.data.validation
    noise = noise if checked is None else noise_of_unchecked(noise, checked)
    count = len(problem.data.train) + (0 if validation is None else len(validation))
    return among_labels(noise, count)


def _by_leaders(problem: Problem, searched: Searched) -> OutOfFold:
    """Return predictions for all examples, of which the trials saw a part.

    Networks take much longer than the others, and the time that neighbors take grows with the
    square of the examples: they serve only if there are no other leaders.
    """
    quick = [each for each in searched.leaders if each.learner not in ("network", "neighbors")]
    leaders = quick or searched.leaders[:1]
    problem = replace(problem, regularize=searched.choice.regularize)
    first, *others = (_out_of_fold(problem, each, name=each.learner) for each in leaders)
    return first.averaged_with(others)


def _out_of_fold(problem: Problem, candidate: Candidate, *, name: str = "") -> OutOfFold:
    """Return predictions for all examples by a candidate; a network trains for fewer epochs."""
    head = problem.head_config
    epochs = head.cross_fit_epochs or cross_fit_epochs(head.epochs)
    # A longer average of weights would lag behind the best epoch.
    changes = {"epochs": epochs, "average_epochs": 1.0}
    brief = replace(problem, config=head.model_copy(update=changes), unfrozen=None)
    prepare = partial(prepared, brief, candidate, None)
    data, seed = problem.data, problem.config.seed
    halves = half_folds(data.train.labels, seed, data.train.groups)
    return problem.session.kept_or_computed(
        f"{name}-all" if name else "all", partial(cross_fit, data, halves, prepare, seed)
    )


def _weighted(noise: Noise, weights: Float64[Tensor, " classes"], whole: TrainingData) -> Noise:
    """Return the noise as a loss with class weights sees it; it is estimated without them."""
    noisy = whole.train
    if whole.checked is not None:
        noisy = noisy.subset(~whole.checked.is_trusted)
    shares = noisy.class_counts().double() / max(1, len(noisy))
    return class_weighted(noise, weights, shares)


def _final_choice(problem: Problem, searched: Searched, noise: Noise) -> Choice:
    """Return the choice, with the stages that suit all examples."""
    choice = searched.choice
    if not isinstance(noise, EstimatedNoise):  # there are too few examples
        if choice.recipe.needs_noise:
            return Choice.named("plain", problem.config.epochs, _TOO_FEW)
        return choice
    # Heads on all examples show nothing of an encoder that is trained with them.
    if problem.unfrozen is not None or not choice.tried or searched.predictions:
        return choice
    return confirmed(problem, choice, noise)


def _prepared(member: Evidence, whole: TrainingData, noise: Noise) -> TrainingData:
    recipe = RECIPES[member.recipe]
    return recipe.prepare(whole, noise) if isinstance(noise, EstimatedNoise) else whole


def cross_fit_epochs(epochs: int) -> int:
    """Return the most epochs of a network that only estimates the noise.

    Example:
        >>> [cross_fit_epochs(epochs) for epochs in (1, 10, 30, 50, 100)]
        [1, 3, 11, 12, 25]
    """
    wanted = max(_FEWEST_EPOCHS, round(_USUAL_PART * epochs))
    return max(1, min(wanted, int(_LARGEST_PART * epochs)))


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
            ``"auto"``, the default, the learners that predict best estimate it
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
    is_by_network = config.method != "auto" and problem.learners == ("network",)
    searched = None if is_by_network else Search(problem).run_for_noise()
    return _cross_fitted(problem, searched, method)
