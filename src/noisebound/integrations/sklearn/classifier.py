"""A classifier for scikit-learn: an adapter over the one training engine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from noisebound.errors import InvalidValueError
from noisebound.estimation import NoiseEstimate
from noisebound.integrations.sklearn.multi_label import (
    fit_labels,
    is_label_matrix,
    label_probabilities,
)
from noisebound.losses import Loss

# Methods import the training engine when they need it: its packages take a second to import.
if TYPE_CHECKING:
    from noisebound.integrations.sklearn.engine import InputScaling
    from noisebound.search.choice import Choice
    from noisebound.training.state import TrainingState

_LARGEST_SEED = 2**31 - 1
_FLOATS = (np.float64, np.float32)


class InterruptedTrainingWarning(UserWarning):
    """Training was stopped by Ctrl-C; the model is as it was then."""


def _has_given_noise(estimator: "NoiseBoundedClassifier") -> bool:
    """True if the noise is not estimated: by a noise rate, or by the loss's own matrix."""
    if estimator.noise_rate == "auto" and estimator.loss_transition is None:
        raise AttributeError(
            "partial_fit sees one part of the data at a time, from which the noise cannot be "
            "estimated: give noise_rate as a number, or a loss with its transition matrix"
        )
    return True


class NoiseBoundedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier for noisy labels.

    By default it estimates the noise, compares learners and recipes, such as a bounded loss or
    suspect labels left out, and trains with those that predict held-out labels best. If you choose
    a loss, it trains a network on ``|mean loss - B|``, where ``B`` is the floor that the noise puts
    under the loss, so that it does not memorize wrong labels. `noisebound fit` trains in the same
    way.

    Args:
        loss: ``"auto"`` for a recipe, or for ``"ce"`` if the noise rate or the bound is given;
            a name of ``create_loss`` that has a floor, such as ``"sce"``; or a loss object.
            ``"fce"`` uses the estimated transition matrix, and suits noise that confuses some
            classes more than others
        noise_rate: the probability that a label is wrong, or ``"auto"`` to estimate it by two
            networks that each train on one half of the examples. With ``"auto"``, a loss object
            that has a transition matrix gives the noise itself
        bound: the level of the mean loss to train against; ``"auto"`` for the one that follows
            from the noise, None for plain training
        recipe: ``"auto"`` to choose by trials, or a name, such as ``"plain"`` or ``"dropped"``;
            only if ``loss`` is ``"auto"``
        learner: ``"auto"`` to compare a network with linear models, boosting, trees and neighbors,
            unless a loss, a noise rate, a bound or layers are given, which belong to networks; the
            name of one of them; or any classifier with ``fit`` and ``predict_proba``
        ensemble_size: the largest number of learners whose predictions are averaged
        n_jobs: the number of processes for long trials, -1 for one per core. The results do not
            depend on it
        hidden_layer_sizes: the widths of the hidden layers, or of a single one; ``()`` for a
            linear model; ``"auto"`` for two layers of 256, or a linear model of sparse features
        max_iter: the number of epochs
        batch_size: examples per step
        learning_rate: Adam's
        alpha: Adam's weight decay
        class_weight: weight of an example by the class of its label (default: 1 for each class);
            ``"balanced"`` to give all classes the same total weight. The floor is weighted likewise
        average_epochs: number of epochs that the averaged weights are taken over
        standardize: True to bring features to mean zero and deviation one; sparse ones keep their
            zeros, and are scaled as a whole so that a row has a length of 10 on average
        random_state: seed of the initial weights, of the halves and of the order of examples
        verbose: True to show the progress

    Attributes:
        classes_: the classes, sorted; with several labels, their columns
        estimators_: with several labels per example, the classifier of each. The attributes
            ``noise_rate_``, ``noise_estimate_`` and ``recipe_`` have an entry per label then,
            ``suspects_`` has pairs of an example and a label, and ``suspicion_`` a column per label
        noise_rate_: the given or estimated noise rate; 0 if it is unknown, for the reason in
            ``noise_estimate_.diagnostics.rejection``
        noise_estimate_: the `NoiseEstimate`, with its interval, its transition matrix and its
            diagnostics; None if the noise was not estimated
        recipe_: the `Choice` of a recipe, with the evidence for all candidates; None if a loss was
            given
        bound_: the level that the mean loss was held at, or None
        suspects_: positions of the training examples whose label is more likely wrong than right,
            the most suspect first; none if the noise is unknown
        suspicion_: the probability that the label is wrong, for every training example; NaN if the
            noise is unknown
        loss_curve_: the mean training loss of each epoch of the network, before the bound
        n_iter_: the number of epochs of the network; 1 without one
        network_: the trained model as a ``torch.nn.Module`` from scaled features to logits: a
            network with averaged weights, another learner, or an ensemble

    Example:
        >>> import torch
        >>> from sklearn.datasets import load_breast_cancer
        >>> from noisebound import corrupt
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> noisy = corrupt(y, "symmetric", 0.3, 2, generator=torch.Generator().manual_seed(0))
        >>> model = NoiseBoundedClassifier(max_iter=20, random_state=0)
        >>> model = model.fit(X[:400], noisy.labels[:400].numpy())
        >>> abs(model.noise_rate_ - 0.3) < 0.1, model.score(X[400:], y[400:]) > 0.9
        (True, True)
    """

    _counts_alike = False  # True for one of several labels, so that a rare one is not drowned
    estimators_: list[Any]
    noise_estimate_: NoiseEstimate | list[NoiseEstimate | None] | None
    recipe_: "Choice | list[Choice | None] | None"
    bound_: float | None
    loss_curve_: list[float]
    _state: "TrainingState | None"
    _scaling: "InputScaling | None"

    def __init__(
        self,
        loss: str | Loss = "auto",
        noise_rate: float | Literal["auto"] = "auto",
        *,
        bound: float | Literal["auto"] | None = "auto",
        recipe: str = "auto",
        learner: Any = "auto",
        ensemble_size: int = 3,
        n_jobs: int | None = -1,
        hidden_layer_sizes: int | Sequence[int] | Literal["auto"] = "auto",
        max_iter: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        alpha: float = 1e-4,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average_epochs: float = 5.0,
        standardize: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.noise_rate = noise_rate
        self.bound = bound
        self.recipe = recipe
        self.learner = learner
        self.ensemble_size = ensemble_size
        self.n_jobs = n_jobs
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.class_weight = class_weight
        self.average_epochs = average_epochs
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> "NoiseBoundedClassifier":
        """Estimate the noise, if it is not given, and train.

        Ctrl-C ends the training of a network early, with a warning; the model can be used. During
        trials there is no model yet, and `KeyboardInterrupt` is raised.

        Args:
            X: features, dense or sparse, one row per example
            y: labels: numbers, text or truth values; or a 0/1 matrix with a column for each of
                several labels that an example may have, -1 where one is missing
            sample_weight: how much each example counts; one without weight is left out
            groups: one value per example; examples with equal values, such as the rows of one
                patient, are never in both training and held-out data
        """
        from noisebound.data.labels import check_none_missing
        from noisebound.integrations.sklearn.engine import fit

        self._forget()
        if is_label_matrix(y):
            fit_labels(self, X, y, sample_weight, groups, _FLOATS)
            return self
        if y is not None:  # for None, scikit-learn raises its own error
            check_none_missing(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._begin(X)
        fit(self, X, y, sample_weight, groups)
        return self

    @available_if(_has_given_noise)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "NoiseBoundedClassifier":
        """Train on these examples once, continuing from what was learned before.

        Available if the noise is given, because it cannot be estimated on a stream: `noise_rate` is
        a number, or `loss` has a transition matrix. The features are scaled as in the first call,
        and `suspects_` is not set.

        The first call needs all ``classes`` that there will be.
        """
        from noisebound.integrations.sklearn.engine import fit_part

        is_first = not hasattr(self, "network_")
        if is_first:
            self._forget()
        _check_partial_fit_first_call(self, classes)
        if self.class_weight is not None:
            raise InvalidValueError(
                "partial_fit sees one part of the labels at a time, and class_weight is about all "
                "of them: pass sample_weight"
            )
        dtype = _FLOATS if is_first else self._dtype
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=dtype, reset=is_first)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InvalidValueError(
                f"labels {unknown.tolist()} are not among the classes of the first call, "
                f"{self.classes_.tolist()}"
            )
        if is_first:
            self._begin(X)
        fit_part(self, X, y, sample_weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the probability of each class, in the order of ``classes_``, or of each label."""
        from noisebound.integrations.sklearn.engine import probabilities

        check_is_fitted(self, ["network_", "estimators_"], all_or_any=any)
        X = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        if hasattr(self, "estimators_"):
            return label_probabilities(self.estimators_, X)
        assert self._scaling is not None
        probs: NDArray[np.floating[Any]] = probabilities(self, self._scaling.inputs(X)).numpy()
        return probs.astype(self._dtype, copy=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row; with several labels, 0 or 1 for each."""
        probs = self.predict_proba(X)
        if hasattr(self, "estimators_"):
            return (probs > 1 / 2).astype(np.int64)
        likeliest = probs.argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _forget(self) -> None:
        """Remove the fitted attributes, so that a failed training leaves no usable model."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_state"]:
            delattr(self, name)

    def _begin(self, X: Any) -> None:
        if len(self.classes_) < 2:
            raise InvalidValueError("a classifier needs at least two classes, got one class")
        self._state = None
        self._scaling = None
        self._seed = int(check_random_state(self.random_state).randint(_LARGEST_SEED))
        self._dtype = X.dtype
        self.loss_curve_ = []

    @property
    def is_by_recipe(self) -> bool:
        """True if nothing is given that only a loss and its bound can use."""
        return self.loss == "auto" and self.noise_rate == "auto" and self.bound == "auto"

    @property
    def loss_transition(self) -> Tensor | None:
        return self.loss.assumed_transition if isinstance(self.loss, Loss) else None
