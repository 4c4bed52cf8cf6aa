"""The parameters of the scikit-learn estimator: checked, and translated into the engine's."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noisebound.catalog import LOSS_NAMES, SPECS
from noisebound.checks import check_count, check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses import Loss

if TYPE_CHECKING:
    from noisebound.integrations.sklearn.classifier import NoiseBoundedClassifier

_NAMES = tuple(name for name in LOSS_NAMES if SPECS[name].floor is not None)
_DENSE_WIDTHS = (256, 256)


def check_parameters(estimator: "NoiseBoundedClassifier") -> None:
    """Refuse invalid parameters; by scikit-learn's convention `fit` does so."""
    from noisebound.search.recipes import RECIPES  # here, as it takes long to import

    if isinstance(estimator.loss, str):
        if estimator.loss != "auto" and estimator.loss.removesuffix("+b") not in _NAMES:
            raise InvalidValueError(
                f"loss must be 'auto', one of {', '.join(_NAMES)}, or a noisebound.Loss; "
                f"got {estimator.loss!r}"
            )
    elif not isinstance(estimator.loss, Loss):
        raise InvalidTypeError(f"loss must be a name or a noisebound.Loss, got {estimator.loss!r}")
    if estimator.recipe not in ("auto", *RECIPES):
        raise InvalidValueError(
            f"recipe must be 'auto' or one of {', '.join(RECIPES)}; got {estimator.recipe!r}"
        )
    if estimator.recipe != "auto" and not estimator.is_by_recipe:
        raise InvalidValueError(
            f"recipe={estimator.recipe!r} brings its own loss and bound, and asks for no noise "
            "rate: leave loss, noise_rate and bound at 'auto', or leave recipe at 'auto'"
        )
    if estimator.noise_rate != "auto":
        check_number("noise_rate", number("noise_rate", estimator.noise_rate), "[0, 1]")
    if estimator.bound is not None and estimator.bound != "auto":
        check_number("bound", number("bound", estimator.bound))
    check_number("learning_rate", estimator.learning_rate, "(0, ∞)")
    check_number("alpha", estimator.alpha, "[0, ∞)")
    check_number("average_epochs", estimator.average_epochs, "[0, ∞)")
    for name in ("max_iter", "batch_size"):
        check_count(name, getattr(estimator, name))
    for width in hidden_widths(estimator.hidden_layer_sizes):
        check_count("hidden_layer_sizes", width)


def hidden_widths(sizes: int | Sequence[int] | str, *, is_sparse: bool = False) -> Sequence[int]:
    """Return the widths of the hidden layers; by default a linear model for sparse features."""
    if isinstance(sizes, str):
        if sizes != "auto":
            raise InvalidValueError(f"hidden_layer_sizes must be widths, or 'auto'; got {sizes!r}")
        return () if is_sparse else _DENSE_WIDTHS
    return (int(sizes),) if isinstance(sizes, int | np.integer) else sizes


def class_weight_by_position(
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
    weights = {label: number("class_weight", weight) for label, weight in given.items()}
    return {
        str(index): check_number("class_weight", weights[label], "[0, ∞)")
        for index, label in enumerate(classes)
        if label in weights
    }


def number(name: str, value: object) -> float:
    """Return a number; refuse anything else, truth values too."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name} must be a number, or 'auto'; got {value!r}")
    return float(value)
