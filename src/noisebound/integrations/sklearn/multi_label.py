"""Several labels at once: a classifier of the same parameters for each column of a 0/1 matrix."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from noisebound.errors import InvalidValueError
from noisebound.estimation.multi_label import of_true_label

if TYPE_CHECKING:
    from noisebound.integrations.sklearn.classifier import NoiseBoundedClassifier

_PROBABLE = 0.5


class ConstantLabelWarning(UserWarning):
    """All examples have a label, or none has it, so that it is predicted without a model."""


def is_label_matrix(y: Any) -> bool:
    """True for targets with several columns."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y, dtype=object).shape
    return len(shape) == 2 and shape[1] > 1


def fit_labels(
    estimator: "NoiseBoundedClassifier",
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    groups: Any,
    dtype: Any,
) -> None:
    """Fit a classifier per label, and set the attributes that they have in common."""
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=dtype, multi_output=True)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, X)
    labels = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    if not np.isin(labels, (-1, 0, 1)).all():
        raise InvalidValueError(
            "y with several columns must hold 1 for each label that an example has, and 0 for "
            "others (-1 where that is not known): for one label per example, give one column"
        )
    estimator._dtype = X.dtype
    seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    fitted, suspicion = [], np.full(labels.shape, np.nan)
    for k, column in enumerate(labels.T):
        known = np.flatnonzero(column >= 0)
        if len(np.unique(column[known])) < 2:
            fitted.append(_constant(k, column[known]))
            continue
        part = clone(estimator).set_params(random_state=seed)
        part._counts_alike = True
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        own_groups = None if groups is None else _safe_indexing(groups, known)
        fitted.append(part.fit(X[known], column[known], weights, own_groups))
        suspicion[known, k] = part.suspicion_
    estimator.estimators_ = fitted
    estimator.classes_ = np.arange(len(fitted))
    estimator.noise_rate_ = np.array([getattr(each, "noise_rate_", 0.0) for each in fitted])
    estimator.noise_estimate_ = [getattr(each, "noise_estimate_", None) for each in fitted]
    estimator.recipe_ = [getattr(each, "recipe_", None) for each in fitted]
    estimator.n_iter_ = max(getattr(each, "n_iter_", 1) for each in fitted)
    estimator.suspicion_ = suspicion
    order = np.argsort(-np.nan_to_num(suspicion), axis=None, kind="stable")
    pairs = np.column_stack(np.unravel_index(order, suspicion.shape))
    estimator.suspects_ = pairs[: int((suspicion > _PROBABLE).sum())]


def _constant(label: int, known: NDArray[Any]) -> DummyClassifier:
    value = int(known[0]) if len(known) else 0
    warnings.warn(
        f"label {label} is {'always' if value else 'never'} there: it is predicted so, "
        "without a model",
        ConstantLabelWarning,
        stacklevel=4,
    )
    return DummyClassifier(strategy="prior").fit([[0]], [value])


def label_probabilities(estimators: list[Any], X: Any) -> NDArray[Any]:
    """Return the probability that an example truly has each label, ``[n, labels]``."""
    columns = []
    for each in estimators:  # without the label among the classes, it is never there
        present = each.predict_proba(X)[:, each.classes_ == 1].sum(axis=1)
        choice, noise = getattr(each, "recipe_", None), getattr(each, "noise_estimate_", None)
        if choice is not None and noise is not None and noise.diagnostics.rejection is None:
            present = of_true_label(present, noise.transition, choice.share_as_given)
        columns.append(present)
    return np.stack(columns, axis=1)
