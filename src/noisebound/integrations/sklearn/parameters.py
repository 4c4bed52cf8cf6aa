"""The parameters of the scikit-learn estimator as the config and objective of a training."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noisebound.catalog import LOSS_NAMES, SPECS
from noisebound.checks import check_count
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation import BoundChoice, Noise
from noisebound.losses import Loss

if TYPE_CHECKING:
    from noisebound.integrations.sklearn.classifier import NoiseBoundedClassifier
    from noisebound.training import TrainingConfig
    from noisebound.training.objective import Objective

_NAMES = tuple(name for name in LOSS_NAMES if SPECS[name].floor is not None)
_DENSE_WIDTHS = (256, 256)
_LEARNS = ("fit", "predict_proba")  # what a classifier of the user's needs
# Config fields that scikit-learn calls by another name.
_PARAMETERS = {"epochs": "max_iter", "weight_decay": "alpha"}


def config_of(
    estimator: "NoiseBoundedClassifier", classes: list[Any], seed: int
) -> "TrainingConfig":
    """Return the config of an estimator; invalid parameters raise an error that names them."""
    from pydantic import ValidationError

    from noisebound.training.config import TrainingConfig

    _check_method(estimator, len(classes))
    rate, matrix = _plain(estimator.noise_rate), None
    if rate == "auto" and estimator.loss_transition is not None:
        matrix = tuple(map(tuple, estimator.loss_transition.tolist()))
    fields = {
        "loss": None if estimator.is_by_recipe else _bounded_loss(estimator.loss),
        "recipe": estimator.recipe if estimator.is_by_recipe else None,
        "learner": _learner(estimator),
        "ensemble_size": _plain(estimator.ensemble_size),
        "noise_rate": rate,
        "transition": matrix,
        "bound": None if estimator.bound == "auto" else _plain(estimator.bound),
        "epochs": _plain(estimator.max_iter),
        "batch_size": _plain(estimator.batch_size),
        "learning_rate": _plain(estimator.learning_rate),
        "drop_epoch": None,
        "weight_decay": _plain(estimator.alpha),
        "class_weight": _class_weight_by_position(estimator.class_weight, classes),
        "average_epochs": _plain(estimator.average_epochs),
        "seed": seed,
    }
    try:  # strict: neither "0.4" nor True is a number
        config = TrainingConfig.model_validate(fields, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidValueError(
            f"{_PARAMETERS.get(field, field)}: {message}; got {first['input']!r}"
        ) from error
    epochs = config.epochs
    return config.model_copy(
        update={
            "cross_fit_epochs": max(1, epochs // 2),
            "measure_every": epochs,
            # The objective takes the bound from the estimator; here it would replace the estimate.
            "bound": None,
        }
    )


def objective_of(
    estimator: "NoiseBoundedClassifier",
    config: "TrainingConfig",
    num_classes: int,
    num_samples: int,
    noise: Noise,
) -> "Objective":
    """Return the objective: the loss by name or as given, and the bound as asked for."""
    from noisebound.training.objective import Objective, make_criterion, make_objective

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


def _learner(estimator: "NoiseBoundedClassifier") -> str:
    given = estimator.learner
    if not isinstance(given, str):
        if isinstance(given, type) or not all(hasattr(given, name) for name in _LEARNS):
            raise InvalidTypeError(
                f"learner must be a name or a classifier with fit and predict_proba, got {given!r}"
            )
        return "estimator"
    has_layers = not isinstance(estimator.hidden_layer_sizes, str)
    return "network" if estimator.learner == "auto" and has_layers else estimator.learner


def hidden_widths(sizes: int | Sequence[int] | str, *, is_sparse: bool) -> Sequence[int]:
    """Return the widths of the hidden layers; by default a linear model for sparse features."""
    if isinstance(sizes, str):
        if sizes != "auto":
            raise InvalidValueError(f"hidden_layer_sizes must be widths, or 'auto'; got {sizes!r}")
        return () if is_sparse else _DENSE_WIDTHS
    widths = (sizes,) if isinstance(sizes, int | np.integer) else sizes
    return [check_count("hidden_layer_sizes", width) for width in widths]


def _check_method(estimator: "NoiseBoundedClassifier", num_classes: int) -> None:
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


def _bounded_loss(loss: str | Loss) -> str:
    """Return the bounded loss of this name; an object takes its place in the objective."""
    return "ce+b" if loss == "auto" or isinstance(loss, Loss) else f"{loss.removesuffix('+b')}+b"


def _class_weight_by_position(
    given: Mapping[Any, float] | str | None, classes: list[Any]
) -> dict[str, float] | Literal["balanced"] | None:
    """Return weights by the position of their class, which is its name in a `Dataset`."""
    if given is None or given == "balanced":
        return None if given is None else "balanced"
    if isinstance(given, str):
        raise InvalidValueError(
            f"class_weight must be a mapping, 'balanced' or None; got {given!r}"
        )
    unknown = [label for label in given if label not in classes]
    if unknown:
        raise InvalidValueError(
            f"class_weight names {unknown[0]!r}, which is none of the classes {classes}"
        )
    return {str(classes.index(label)): _plain(weight) for label, weight in given.items()}


def _plain(value: Any) -> Any:
    """Return a number of numpy's as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value
