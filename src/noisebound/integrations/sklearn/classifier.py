"""A multilayer perceptron for scikit-learn: an adapter over the one training engine."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from noisebound.errors import InvalidValueError
from noisebound.estimation import EstimatedNoise, Noise, NoiseEstimate, UnknownNoise
from noisebound.integrations.sklearn.inputs import InputScaling
from noisebound.integrations.sklearn.parameters import config_of, hidden_widths, objective_of
from noisebound.losses import Loss
from noisebound.models import linear, mlp
from noisebound.models.regularized import without_factors

# Methods import the training engine when they need it: its packages take a second to import.
if TYPE_CHECKING:
    from noisebound.data import Dataset
    from noisebound.data.rows import Rows
    from noisebound.search.choice import Choice
    from noisebound.search.fit import Plan
    from noisebound.training.config import LearnerName, RecipeName
    from noisebound.training.data import TrainingData
    from noisebound.training.devices import OneDevice
    from noisebound.training.objective import Objective
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
    """A neural network for labels of which some are wrong.

    By default it tries several recipes, such as plain training, a bounded loss, or suspect labels
    left out, and trains with the one that predicts held-out labels best. If you choose a loss, it
    trains on ``|mean loss - B|``, where ``B`` is the floor that the noise puts under the loss, so
    that it does not memorize wrong labels. The noise is estimated first. The training is that of
    `noisebound fit`; this class translates scikit-learn's conventions.

    Args:
        loss: ``"auto"`` for a recipe, or for ``"ce"`` if the noise rate or the bound is given;
            ``"ce"``, ``"fce"``, ``"gce"``, ``"sce"``, ``"cep"`` or another name of
            ``create_loss`` that has a floor; or a loss object. ``"fce"`` uses the estimated
            transition matrix, and suits noise that confuses some classes more than others.
        noise_rate: the probability that a label is wrong, or ``"auto"`` to estimate it by two
            networks that each train on one half of the examples, for at most half of the epochs.
            With ``"auto"``, a loss object that has a transition matrix gives the noise itself
        bound: the level of the mean loss to train against; ``"auto"`` for the one that follows
            from the noise, None for plain training
        recipe: ``"auto"`` to choose by trials, which are short trainings on halves of at most
            5,000 examples, or a name, such as ``"plain"`` or ``"dropped"``; only if ``loss`` is
            ``"auto"``
        learner: ``"auto"`` to compare a network with linear models, boosting, trees and neighbors,
            unless a loss, a noise rate, a bound or layers are given, which belong to networks; the
            name of one of them; or any classifier with ``fit`` and ``predict_proba``
        ensemble_size: the largest number of learners whose predictions are averaged
        n_jobs: the number of processes for long trials, -1 for one per core. The results do not
            depend on it
        hidden_layer_sizes: the widths of the hidden layers, or of a single one; ``()`` for a
            linear model; ``"auto"`` for two layers of 256, and for a linear model of sparse
            features, such as the words of texts, where layers cost much and gain nothing
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
        verbose: True to show the progress on a terminal or in a notebook

    Attributes:
        classes_: the classes, sorted
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
        >>> from sklearn.datasets import load_digits
        >>> from noisebound import corrupt
        >>> X, y = load_digits(return_X_y=True)
        >>> noisy = corrupt(y, "symmetric", 0.4, 10, generator=torch.Generator().manual_seed(0))
        >>> model = NoiseBoundedClassifier(max_iter=20, random_state=0)
        >>> model = model.fit(X[:600], noisy.labels[:600].numpy())
        >>> abs(model.noise_rate_ - 0.4) < 0.1, model.score(X[600:], y[600:]) > 0.8
        (True, True)
    """

    noise_estimate_: NoiseEstimate | None
    recipe_: "Choice | None"
    bound_: float | None
    loss_curve_: list[float]
    _state: "TrainingState | None"
    _scaling: InputScaling | None

    def __init__(
        self,
        loss: str | Loss = "auto",
        noise_rate: float | Literal["auto"] = "auto",
        *,
        bound: float | Literal["auto"] | None = "auto",
        recipe: "RecipeName | Literal['auto']" = "auto",
        learner: "LearnerName | Literal['auto'] | Any" = "auto",
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
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> "NoiseBoundedClassifier":
        """Estimate the noise, if it is not given, and train.

        Ctrl-C ends the training of a network early, with a warning; the model can be used. During
        trials there is no model yet, and `KeyboardInterrupt` is raised.

        Args:
            X: features, dense or sparse, one row per example
            y: labels: numbers, text or truth values
            sample_weight: how much each example counts; one without weight is left out
        """
        from noisebound.data.labels import check_none_missing
        from noisebound.search.fit import plan_training, train
        from noisebound.search.problem import Problem
        from noisebound.training.devices import OneDevice
        from noisebound.training.session import Session

        self._forget()
        if y is not None:  # scikit-learn has an error of its own for None
            check_none_missing(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._begin(X)
        config = config_of(self, self.classes_.tolist(), self._seed)
        whole, data = self._training_data(X, y, sample_weight)
        # Trials compare recipes, for which float32 has enough digits.
        session = Session(
            self._devices(), OneDevice("cpu"), show=self.verbose, n_jobs=self.n_jobs or 1
        )
        problem = Problem(
            data,
            config,
            self._network(),
            session,
            partial(objective_of, self),
            estimator=None if isinstance(self.learner, str) else self.learner,
        )
        plan = plan_training(problem)
        try:
            model = train(plan, session).model
        except KeyboardInterrupt:
            if session.state is None or plan.others:
                raise
            warnings.warn(
                f"training was interrupted after {session.state.epoch} epochs: the model is "
                "as it was then",
                InterruptedTrainingWarning,
                stacklevel=2,
            )
            model = session.state.best_model
        self.loss_curve_ = [metrics.train_loss for metrics in session.history]
        self._state = session.state
        self._conclude(model, plan.noise, plan.objective)
        self.recipe_ = plan.choice
        self._judge(whole, plan)
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

        Args:
            X: features, dense or sparse, one row per example
            y: labels
            classes: all classes that there will be; needed in the first call
            sample_weight: how much each example counts
        """
        from noisebound.search.problem import known_noise
        from noisebound.training.loop import Training
        from noisebound.training.state import initial_state

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
        config, devices = config_of(self, self.classes_.tolist(), self._seed), self._devices()
        _, data = self._training_data(X, y, sample_weight)
        noise = known_noise(config, data.train)
        assert noise is not None
        objective = objective_of(self, config, len(self.classes_), len(data.train), noise)
        if self._state is None:
            self._state = initial_state(
                self._network(), objective, config, len(data.train), devices
            )
        self._state.criterion = objective.criterion
        for group in self._state.optimizer.param_groups:
            group["weight_decay"] = config.weight_decay
        config = config.model_copy(update={"epochs": self._state.epoch + 1})
        for name in ("suspects_", "suspicion_"):  # they belong to other data
            self.__dict__.pop(name, None)
        for metrics in Training(self._state, objective, data, config, devices).epochs():
            self.loss_curve_.append(metrics.train_loss)
        self._conclude(self._state.best_model, noise, objective)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the probability of each class, one column per class in the order of ``classes_``.

        Args:
            X: features, dense or sparse, one row per example
        """
        check_is_fitted(self, "network_")
        X = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        assert self._scaling is not None
        probs: NDArray[np.floating[Any]] = self._probabilities(self._scaling.inputs(X)).numpy()
        return probs.astype(self._dtype, copy=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row.

        Args:
            X: features, dense or sparse, one row per example
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _forget(self) -> None:
        """Remove what was learned, so that a training that fails leaves nothing to be used."""
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

    def _training_data(
        self, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None
    ) -> "tuple[Dataset, TrainingData]":
        """Return all examples, and those with a weight as training data."""
        from noisebound.data import Dataset
        from noisebound.training.data import TrainingData

        weights = _check_sample_weight(
            sample_weight, X, dtype=X.dtype, ensure_non_negative=True, copy=True
        )
        if not weights.any():
            raise InvalidValueError(
                "sample_weight is zero for all examples: none is left to train on"
            )
        if self._scaling is None:
            self._scaling = InputScaling(X, weights, standardize=self.standardize)
        whole = Dataset(
            self._scaling.inputs(X),
            torch.from_numpy(np.searchsorted(self.classes_, y)),
            tuple(map(str, range(len(self.classes_)))),
            weights=None if sample_weight is None else torch.from_numpy(weights),
        )
        kept = torch.from_numpy(weights.nonzero()[0])
        train = whole.subset(kept)
        normalization = self._scaling.normalization_for(train)
        return whole, TrainingData(train, None, None, normalization, kept)

    @property
    def is_by_recipe(self) -> bool:
        """True if nothing is given that only a loss and its bound can use."""
        return self.loss == "auto" and self.noise_rate == "auto" and self.bound == "auto"

    @property
    def loss_transition(self) -> Tensor | None:
        """The transition matrix of a loss object that has one."""
        return self.loss.assumed_transition if isinstance(self.loss, Loss) else None

    def _network(self) -> nn.Module:
        assert self._scaling is not None
        shape, num_classes = (self.n_features_in_,), len(self.classes_)
        widths = hidden_widths(self.hidden_layer_sizes, is_sparse=self._scaling.is_sparse)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            return mlp(shape, num_classes, widths) if widths else linear(shape, num_classes)

    def _devices(self) -> "OneDevice":
        from noisebound.training.devices import OneDevice

        return OneDevice("cpu", torch.float64 if self._dtype == np.float64 else torch.float32)

    def _conclude(self, model: nn.Module, noise: Noise, objective: "Objective") -> None:
        """Set what was learned."""
        model = without_factors(model, self._network())
        self.network_ = model.double() if self._dtype == np.float64 else model
        self.n_iter_ = 1 if self._state is None else self._state.epoch
        self.noise_rate_ = noise.assumed_rate
        if noise.unknown_because is not None:
            self.noise_rate_ = 0.0
        self.bound_ = objective.bound
        self.noise_estimate_ = None
        if isinstance(noise, EstimatedNoise):
            self.noise_estimate_ = noise.estimate
        elif isinstance(noise, UnknownNoise):
            self.noise_estimate_ = noise.rejected

    def _judge(self, whole: "Dataset", plan: "Plan") -> None:
        """Set which labels are probably wrong; unknown if the noise is."""
        from noisebound.estimation.model_suspects import suspects_by_models

        if plan.noise.unknown_because is not None:
            self.suspicion_, self.suspects_ = np.full(len(whole), np.nan), np.empty(0, np.int64)
            return
        noise, criterion = plan.noise, plan.objective.criterion
        assert isinstance(criterion, Loss)
        suspects = suspects_by_models(
            self._probabilities(whole.inputs).double(),
            whole.labels,
            criterion,
            plan.seen_noise.transition,
            *(noise.out_of_fold, noise.estimate) if isinstance(noise, EstimatedNoise) else (None,),
            is_network=not plan.others,
        )
        ranking = suspects.ranking
        self.suspicion_ = suspects.probability.numpy()
        self.suspects_ = ranking[suspects.score[ranking] > 0].numpy()

    def _probabilities(self, inputs: "Tensor | Rows") -> Float[Tensor, "n classes"]:
        from noisebound.data import Dataset
        from noisebound.training.evaluation import predict_logits

        assert self._scaling is not None
        assert self._scaling.normalization is not None
        labels = torch.zeros(len(inputs), dtype=torch.int64)
        data = Dataset(inputs, labels, tuple(map(str, range(len(self.classes_)))))
        normalization = self._scaling.normalization
        return predict_logits(self.network_, data, normalization, self._devices()).softmax(1)
