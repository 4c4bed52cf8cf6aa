"""Adapts the scikit-learn estimator's parameters and data to the training engine.

`NoiseBoundedClassifier` imports this module when it trains.
"""

import copy
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor, nn

from noisebound.catalog import LOSS_NAMES, SPECS
from noisebound.checks import check_count
from noisebound.data import Dataset, Normalization, Splits
from noisebound.data.groups import group_indices
from noisebound.data.options import first_mistake
from noisebound.data.rows import Rows, SparseRows
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation import BoundChoice, EstimatedNoise, Noise
from noisebound.estimation.suspects import suspects_by_models
from noisebound.integrations.sklearn.classifier import (
    InterruptedTrainingWarning,
    NoiseBoundedClassifier,
)
from noisebound.losses import Loss
from noisebound.models import linear, mlp
from noisebound.models.regularized import without_factors
from noisebound.search.fit import Plan, plan_training, train
from noisebound.search.problem import Problem, known_noise
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData, normalization_of
from noisebound.training.devices import OneDevice
from noisebound.training.evaluation import EvaluationSet
from noisebound.training.loop import Training
from noisebound.training.objective import Objective, make_criterion, make_objective
from noisebound.training.session import Session
from noisebound.training.state import initial_state

_NAMES = tuple(name for name in LOSS_NAMES if SPECS[name].has_floor)
_DENSE_WIDTHS = (256, 256)
_ROW_LENGTH = 10.0  # as for TF-IDF in `fit`: a network learns little from rows of length one
_LEARNS = ("fit", "predict_proba")  # what a classifier of the user's needs
# Config fields that scikit-learn calls by another name.
_PARAMETERS = {"epochs": "max_iter", "weight_decay": "alpha"}


def fit(
    estimator: NoiseBoundedClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: ArrayLike | None,
    groups: Any = None,
) -> None:
    """Estimate the noise, if it is not given, choose a recipe and train."""
    config = _config_of(estimator)
    whole, data = _training_data(estimator, X, y, sample_weight, groups)
    # Trials compare recipes, for which float32 has enough digits.
    session = Session(
        _devices(estimator), OneDevice("cpu"), show=estimator.verbose, n_jobs=estimator.n_jobs or 1
    )
    problem = Problem(
        data,
        config,
        _network(estimator),
        session,
        partial(_objective_of, estimator),
        estimator=None if isinstance(estimator.learner, str) else estimator.learner,
    )
    plan = plan_training(problem)
    try:
        model = train(plan, session).model
    except KeyboardInterrupt:
        if session.state is None or plan.others:
            raise
        warnings.warn(
            f"training was interrupted after {session.state.epoch} epochs: the model is as it was "
            "then",
            InterruptedTrainingWarning,
            stacklevel=3,
        )
        model = session.state.best_model
    estimator.loss_curve_ = [metrics.train_loss for metrics in session.history]
    estimator._state = session.state
    _conclude(estimator, model, plan.noise, plan.objective)
    estimator.recipe_ = plan.choice
    _judge(estimator, whole, plan)


def fit_part(
    estimator: NoiseBoundedClassifier, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None
) -> None:
    """Train for one epoch, with the current parameters."""
    config, devices = _config_of(estimator), _devices(estimator)
    # One epoch holds nothing out, so groups would have no use.
    _, data = _training_data(estimator, X, y, sample_weight, finds_duplicates=False)
    noise = known_noise(config, data.train)
    assert noise is not None
    count = len(data.train)
    objective = _objective_of(estimator, config, len(estimator.classes_), count, noise)
    state = estimator._state
    if state is None:
        state = initial_state(_network(estimator), objective, config, count, devices)
    state.criterion = objective.criterion
    for group in state.optimizer.param_groups:
        group["weight_decay"] = config.weight_decay
    config = config.model_copy(update={"epochs": state.epoch + 1})
    for name in ("suspects_", "suspicion_"):  # they belong to other data
        estimator.__dict__.pop(name, None)
    for metrics in Training(state, objective, data, config, devices).epochs():
        estimator.loss_curve_.append(metrics.train_loss)
    estimator._state = state
    _conclude(estimator, state.best_model, noise, objective)


def probabilities(
    estimator: NoiseBoundedClassifier, inputs: Tensor | Rows
) -> Float[Tensor, "n classes"]:
    """Return the class probabilities of scaled inputs."""
    scaling = estimator._scaling
    assert scaling is not None
    assert scaling.normalization is not None
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    data = Dataset(inputs, labels, _class_names(estimator))
    examples = EvaluationSet(data, scaling.normalization, _devices(estimator))
    return examples.logits(estimator.network_).softmax(1)


class InputScaling:
    """Brings features to the form of the first ones, and to their scale if they are standardized.

    Sparse features keep their zeros: one factor scales all of them to a mean row length of 10.
    """

    normalization: Normalization | None = None

    def __init__(self, X: Any, weights: NDArray[Any], *, standardize: bool) -> None:
        self.is_sparse, self.factor = issparse(X), 1.0
        if self.is_sparse and standardize:
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            mean = float(np.average(lengths, weights=weights))
            self.factor = _ROW_LENGTH / mean if mean > 0 else 1.0

    def inputs(self, X: Any) -> Tensor | SparseRows:
        is_sparse: bool = issparse(X)
        if not self.is_sparse:
            dense = X.toarray() if is_sparse else X
            return torch.from_numpy(np.require(dense, requirements=["C", "W"]))
        scaled = X.tocsr(copy=True) if is_sparse else csr_array(X)
        scaled.data *= self.factor
        return SparseRows(scaled)


def _training_data(
    estimator: NoiseBoundedClassifier,
    X: Any,
    y: NDArray[Any],
    sample_weight: ArrayLike | None,
    groups: Any = None,
    *,
    finds_duplicates: bool = True,
) -> tuple[Dataset, TrainingData]:
    """Return all examples, and those with a weight as training data."""
    weights = _check_sample_weight(
        sample_weight, X, dtype=X.dtype, ensure_non_negative=True, copy=True
    )
    if not weights.any():
        raise InvalidValueError("sample_weight is zero for all examples: none is left to train on")
    if estimator._scaling is None:
        estimator._scaling = InputScaling(X, weights, standardize=estimator.standardize)
    scaling = estimator._scaling
    whole = Dataset(
        scaling.inputs(X),
        torch.from_numpy(np.searchsorted(estimator.classes_, y)),
        _class_names(estimator),
        weights=None if sample_weight is None else torch.from_numpy(weights),
        groups=None if groups is None else group_indices(groups, len(y)),
        counts_alike=estimator._counts_alike,
    )
    together = whole
    if finds_duplicates:
        together = Splits("X", whole, None, source="memory").with_duplicates_together().train
    kept = torch.from_numpy(weights.nonzero()[0])
    data = together.subset(kept)
    if scaling.normalization is None:
        identity = Normalization.identity()
        scaling.normalization = normalization_of(data) if estimator.standardize else identity
    return whole, TrainingData(data, None, None, scaling.normalization, kept)


def _class_names(estimator: NoiseBoundedClassifier) -> tuple[str, ...]:
    return tuple(map(str, range(len(estimator.classes_))))


def _devices(estimator: NoiseBoundedClassifier) -> OneDevice:
    return OneDevice("cpu", torch.float64 if estimator._dtype == np.float64 else torch.float32)


def _network(estimator: NoiseBoundedClassifier) -> nn.Module:
    """Return the untrained network; by default a linear model for sparse features."""
    assert estimator._scaling is not None
    sizes = estimator.hidden_layer_sizes
    if isinstance(sizes, str):
        if sizes != "auto":
            raise InvalidValueError(f"hidden_layer_sizes must be widths, or 'auto'; got {sizes!r}")
        sizes = () if estimator._scaling.is_sparse else _DENSE_WIDTHS
    sizes = (sizes,) if isinstance(sizes, int | np.integer) else sizes
    widths = [check_count("hidden_layer_sizes", width) for width in sizes]
    shape, num_classes = (estimator.n_features_in_,), len(estimator.classes_)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(estimator._seed)
        return mlp(shape, num_classes, widths) if widths else linear(shape, num_classes)


def _conclude(
    estimator: NoiseBoundedClassifier, model: nn.Module, noise: Noise, objective: Objective
) -> None:
    model = without_factors(model, _network(estimator))
    estimator.network_ = model.double() if estimator._dtype == np.float64 else model
    estimator.n_iter_ = 1 if estimator._state is None else estimator._state.epoch
    estimator.noise_rate_ = 0.0 if noise.unknown_because is not None else noise.assumed_rate
    estimator.bound_ = objective.bound
    estimator.noise_estimate_ = noise.estimate


def _judge(estimator: NoiseBoundedClassifier, whole: Dataset, plan: Plan) -> None:
    """Set which labels are probably wrong, if the noise is known."""
    noise, criterion = plan.noise, plan.objective.criterion
    if noise.unknown_because is not None:
        estimator.suspicion_ = np.full(len(whole), np.nan)
        estimator.suspects_ = np.empty(0, np.int64)
        return
    assert isinstance(criterion, Loss)
    suspects = suspects_by_models(
        probabilities(estimator, whole.inputs).double(),
        whole.labels,
        criterion,
        plan.seen_noise.transition,
        *(noise.out_of_fold, noise.of_labels) if isinstance(noise, EstimatedNoise) else (None,),
        is_network=not plan.others,
    )
    ranking = suspects.ranking
    estimator.suspicion_ = suspects.probability.numpy()
    estimator.suspects_ = ranking[suspects.score[ranking] > 0].numpy()


def _config_of(estimator: NoiseBoundedClassifier) -> TrainingConfig:
    classes = estimator.classes_.tolist()
    _check_method(estimator, len(classes))
    matrix = None
    if estimator.noise_rate == "auto" and estimator.loss_transition is not None:
        matrix = tuple(map(tuple, estimator.loss_transition.tolist()))
    # A loss object takes the place of the named one in the objective.
    loss = estimator.loss if isinstance(estimator.loss, str) and estimator.loss != "auto" else "ce"
    fields = {
        "loss": None if estimator.is_by_recipe else f"{loss.removesuffix('+b')}+b",
        "recipe": estimator.recipe if estimator.is_by_recipe else None,
        "learner": _learner(estimator),
        "ensemble_size": estimator.ensemble_size,
        "noise_rate": estimator.noise_rate,
        "bound": None if estimator.bound == "auto" else estimator.bound,
        "epochs": estimator.max_iter,
        "batch_size": estimator.batch_size,
        "learning_rate": estimator.learning_rate,
        "drop_epoch": None,
        "weight_decay": estimator.alpha,
        "class_weight": _class_weight_by_position(estimator.class_weight, classes),
        "average_epochs": estimator.average_epochs,
        "seed": estimator._seed,
    }
    plain = {name: _plain(value) for name, value in fields.items()}
    try:  # strict: neither "0.4" nor True is a number
        config = TrainingConfig.model_validate(plain, strict=True)
    except ValidationError as error:
        message = first_mistake(error)
        for field, parameter in _PARAMETERS.items():
            message = message.replace(f"`{field}`", f"`{parameter}`")
        raise InvalidValueError(message) from error
    epochs = config.epochs
    return config.model_copy(
        update={
            "cross_fit_epochs": max(1, epochs // 2),
            "measure_every": epochs,
            "transition": matrix,
            # The objective takes the bound from the estimator; here it would replace the estimate.
            "bound": None,
        }
    )


def _objective_of(
    estimator: NoiseBoundedClassifier,
    config: TrainingConfig,
    num_classes: int,
    num_samples: int,
    noise: Noise,
) -> Objective:
    """Return the objective: the loss by name or as given, and the bound as asked for."""
    if estimator.is_by_recipe:
        return make_objective(config, num_classes, num_samples, noise)
    if isinstance(estimator.loss, Loss):
        criterion = copy.deepcopy(estimator.loss)
    else:
        criterion = make_criterion(config, num_classes, num_samples, noise)
    if estimator.bound is None:
        return Objective(criterion, None)
    if estimator.bound == "auto":
        return Objective(criterion, noise.bound(criterion))
    bound = BoundChoice(float(estimator.bound), "given", "the level that was given")
    return Objective(criterion, bound)


def _learner(estimator: NoiseBoundedClassifier) -> str:
    given = estimator.learner
    if not isinstance(given, str):
        if isinstance(given, type) or not all(hasattr(given, name) for name in _LEARNS):
            raise InvalidTypeError(
                f"learner must be a name or a classifier with fit and predict_proba, got {given!r}"
            )
        return "estimator"
    has_layers = not isinstance(estimator.hidden_layer_sizes, str)
    return "network" if given == "auto" and has_layers else given


def _check_method(estimator: NoiseBoundedClassifier, num_classes: int) -> None:
    loss = estimator.loss
    if not isinstance(loss, str | Loss):
        raise InvalidTypeError(f"loss must be a name or a noisebound.Loss, got {loss!r}")
    if isinstance(loss, str) and loss != "auto" and loss.removesuffix("+b") not in _NAMES:
        raise InvalidValueError(
            f"loss must be 'auto', one of {', '.join(_NAMES)}, or a noisebound.Loss; got {loss!r}"
        )
    if isinstance(loss, Loss) and loss.num_classes not in (None, num_classes):
        raise InvalidValueError(
            f"the loss was made for {loss.num_classes} classes, and y has {num_classes}: "
            f"create it for {num_classes} classes"
        )
    has_weights = isinstance(loss, Loss) and loss.class_weights(num_classes) is not None
    if has_weights and estimator.bound == "auto":
        raise InvalidValueError(
            "the floor of a loss with class weights, or one that ignores a class, is not known "
            "from the noise alone: pass sample_weight to fit instead, or a bound"
        )
    if estimator.recipe != "auto" and not estimator.is_by_recipe:
        raise InvalidValueError(
            f"recipe={estimator.recipe!r} brings its own loss and bound, and asks for no noise "
            "rate: leave loss, noise_rate and bound at 'auto', or leave recipe at 'auto'"
        )
    if estimator.noise_rate is None:
        raise InvalidTypeError("noise_rate must be a number or 'auto', got None")


def _class_weight_by_position(
    given: Mapping[Any, float] | str | None, classes: list[Any]
) -> dict[str, float] | str | None:
    """Return weights by the position of their class, which is its name in a `Dataset`."""
    if given is None or isinstance(given, str):
        if given not in (None, "balanced"):
            raise InvalidValueError(
                f"class_weight must be a mapping, 'balanced' or None; got {given!r}"
            )
        return given
    unknown = [label for label in given if label not in classes]
    if unknown:
        raise InvalidValueError(
            f"class_weight names {unknown[0]!r}, which is none of the classes {classes}"
        )
    return {str(classes.index(label)): _plain(weight) for label, weight in given.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
