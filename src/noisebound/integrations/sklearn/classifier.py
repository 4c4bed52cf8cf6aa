"""A multilayer perceptron that is trained against the floor of its noisy labels."""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from noisebound.bounds import noise_bound, symmetric_columns
from noisebound.catalog import LOSS_NAMES, create_loss
from noisebound.checks import check_count, check_finite_number, check_non_negative, check_within
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation import NoiseEstimate
from noisebound.integrations.sklearn.examples import Examples, Scaling
from noisebound.integrations.sklearn.learner import Learner, Pace, predicted_logits
from noisebound.integrations.sklearn.measuring import FEWEST_EXAMPLES, measure_by_halves
from noisebound.losses import CrossEntropy, Loss
from noisebound.models.mlp import mlp
from noisebound.training.display import Display
from noisebound.training.measured_noise import MeasuredNoise
from noisebound.training.objective import CORRECTIONS, WITHOUT_NOISE_BOUND
from noisebound.training.suspects import judged_labels

_NAMES = tuple(name for name in LOSS_NAMES if name not in WITHOUT_NOISE_BOUND)
_LARGEST_SEED = 2**31 - 1
_FLOATS = (np.float64, np.float32)


class InterruptedTrainingWarning(UserWarning):
    """Training was stopped by Ctrl-C; the model is as it was then."""


class UnmeasuredNoiseWarning(UserWarning):
    """The noise could not be measured, and training was plain."""


def _knows_the_noise(estimator: "NoiseBoundedClassifier") -> bool:
    """A stream cannot be divided into halves, so that its noise has to be known beforehand."""
    if estimator.noise_rate == "auto":
        raise AttributeError(
            "partial_fit sees a part of the data at a time and cannot measure its noise: give "
            "noise_rate as a number"
        )
    return True


def _number(name: str, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name} must be a number, or 'auto'; got {value!r}")
    return float(value)


class NoiseBoundedClassifier(ClassifierMixin, BaseEstimator):
    """A neural network for labels of which some are wrong.

    It is trained on ``|mean loss - B|``, where ``B`` is the floor that the noise puts under the
    loss, so that it does not learn wrong labels by heart. How noisy they are is measured first.

    Args:
        loss: ``"ce"``, ``"fce"``, ``"gce"``, ``"sce"``, ``"cep"`` or another of ``create_loss``
            that has a floor, or a loss of one's own. ``"fce"`` takes the estimated transition
            matrix into account, and suits noise that confuses some classes more than others.
        noise_rate: the probability that a label is wrong, or ``"auto"`` to estimate it by two
            networks that each learn a half of the examples, for half of the epochs at most
        bound: the level of the mean loss to train against; ``"auto"`` for the one that follows
            from the noise, None for plain training
        hidden_layer_sizes: the widths of the layers between, or of the one; ``()`` for a linear
            model
        max_iter: epochs
        batch_size: examples a step
        learning_rate: Adam's
        alpha: Adam's weight decay
        average_epochs: over about how many epochs the weights are averaged
        standardize: whether features are brought to mean zero and deviation one; sparse ones are
            left as they are
        random_state: decides weights, halves and orders
        verbose: whether the loss is drawn as it falls, if someone is looking

    Attributes:
        classes_: the classes, sorted
        noise_rate_: as given or estimated
        noise_estimate_: the `NoiseEstimate`, with its interval, its transition matrix and what
            there is to doubt; None if the noise was not estimated
        bound_: the level that was trained against, or None
        suspects_: positions of the training examples whose label is more likely wrong than right,
            the most suspect first
        suspicion_: of every training example, the probability that its label is wrong
        loss_curve_: the mean training loss of each epoch, before the bound
        n_iter_: epochs done
        network_: the trained ``torch.nn.Module``, with averaged weights

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from noisebound import corrupt
        >>> X, y = load_digits(return_X_y=True)
        >>> noisy = corrupt(y, "symmetric", 0.4, 10, generator=torch.Generator().manual_seed(0))
        >>> model = NoiseBoundedClassifier(random_state=0)
        >>> model = model.fit(X[:1000], noisy.labels[:1000].numpy())
        >>> abs(model.noise_rate_ - 0.4) < 0.1, model.score(X[1000:], y[1000:]) > 0.8
        (True, True)
    """

    noise_estimate_: NoiseEstimate | None
    bound_: float | None
    _learner: Learner | None

    def __init__(
        self,
        loss: str | Loss = "ce",
        noise_rate: float | Literal["auto"] = "auto",
        *,
        bound: float | Literal["auto"] | None = "auto",
        hidden_layer_sizes: int | Sequence[int] = (256, 256),
        max_iter: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        alpha: float = 1e-2,
        average_epochs: float = 5.0,
        standardize: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.noise_rate = noise_rate
        self.bound = bound
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.average_epochs = average_epochs
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> "NoiseBoundedClassifier":
        """Measure the noise, if it is not given, and train.

        Ctrl-C ends the training early, with a warning; the model can be used.

        Args:
            X: features, dense or sparse, a row an example
            y: labels: numbers, text or truth values
            sample_weight: how much each example counts; one without weight is left out
        """
        self._forget()
        self._check_parameters()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=_FLOATS)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        whole = self._begin(X, y, sample_weight)
        kept = whole.weights.nonzero().squeeze(1)
        examples = whole.subset(kept)
        noise = None
        try:
            noise = self._measured(examples)
            criterion, bound = self._objective(noise)
            self._learner = self._new_learner(criterion, bound, self._pace(), len(examples))
            self._train(self._learner, examples)
        except KeyboardInterrupt:
            if self._learner is None:
                raise
            warnings.warn(
                f"training was interrupted after {self._learner.epochs_done} epochs: the model is "
                "as it was then",
                InterruptedTrainingWarning,
                stacklevel=2,
            )
        self._conclude(self._learner)
        self._judge(whole, kept, noise)
        return self

    @available_if(_knows_the_noise)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "NoiseBoundedClassifier":
        """Learn from these examples once, and go on from what was learnt before.

        There if `noise_rate` is a number: noise cannot be measured on a stream. The features are
        scaled as those of the first call were, and `suspects_` are not looked for.

        Args:
            X: features, dense or sparse, a row an example
            y: labels
            classes: all that there will be; needed in the first call
            sample_weight: how much each example counts
        """
        is_first = not hasattr(self, "network_")
        if is_first:
            self._forget()
        _check_partial_fit_first_call(self, classes)
        self._check_parameters()
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=_FLOATS if is_first else self._dtype,
            reset=is_first,
        )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InvalidValueError(
                f"labels {unknown.tolist()} are not among the classes of the first call, "
                f"{self.classes_.tolist()}"
            )
        if is_first:
            whole = self._begin(X, y, sample_weight)
        else:
            whole = self._examples(X, y, sample_weight, self._scaling)
        examples = whole.subset(whole.weights.nonzero().squeeze(1))
        criterion, bound = self._objective(None)
        if self._learner is None:
            self._learner = self._new_learner(criterion, bound, self._pace(), len(examples))
        self._learner.inform(criterion, bound, self._pace())
        for name in ("suspects_", "suspicion_"):  # of what was learnt before
            self.__dict__.pop(name, None)
        self.loss_curve_.append(self._learner.epoch(examples))
        self._conclude(self._learner)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """The probability of each class, a column a class in the order of ``classes_``."""
        check_is_fitted(self, "network_")
        X = validate_data(self, X, accept_sparse="csr", dtype=self._dtype, reset=False)
        logits = predicted_logits(self.network_, X, self._scaling)
        return logits.softmax(1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        if isinstance(self.loss, str):
            if self.loss.removesuffix("+b") not in _NAMES:
                raise InvalidValueError(
                    f"loss must be one of {', '.join(_NAMES)}, or a noisebound.Loss; "
                    f"got {self.loss!r}"
                )
        elif not isinstance(self.loss, Loss):
            raise InvalidTypeError(f"loss must be a name or a noisebound.Loss, got {self.loss!r}")
        if self.noise_rate != "auto":
            check_within(
                "noise_rate", _number("noise_rate", self.noise_rate), 0, 1, open_at_low=False
            )
        if self.bound is not None and self.bound != "auto":
            check_finite_number("bound", _number("bound", self.bound))
        check_within("learning_rate", self.learning_rate, 0, np.inf, open_at_low=True)
        check_non_negative("alpha", self.alpha)
        check_non_negative("average_epochs", self.average_epochs)
        for name in ("max_iter", "batch_size"):
            check_count(name, getattr(self, name))
        for width in self._hidden_widths():
            check_count("hidden_layer_sizes", width)

    def _hidden_widths(self) -> Sequence[int]:
        sizes = self.hidden_layer_sizes
        return (int(sizes),) if isinstance(sizes, int | np.integer) else sizes

    def _forget(self) -> None:
        """What was learnt, so that a training that fails leaves nothing that could be used."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_learner"]:
            delattr(self, name)

    def _begin(self, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None) -> Examples:
        """The examples, with the scaling that is theirs."""
        if len(self.classes_) < 2:
            raise InvalidValueError("a classifier needs at least two classes, got one class")
        self._refuse_class_weights()
        self._learner = None
        self._seed = int(check_random_state(self.random_state).randint(_LARGEST_SEED))
        self._dtype = X.dtype
        self.loss_curve_: list[float] = []
        self.noise_rate_, self.noise_estimate_, self.bound_ = math.nan, None, None
        examples = self._examples(X, y, sample_weight, Scaling.none(X.dtype))
        if self.standardize:
            examples = examples.standardized()
        self._scaling = examples.scaling
        return examples

    def _examples(
        self, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None, scaling: Scaling
    ) -> Examples:
        weights = _check_sample_weight(
            sample_weight, X, dtype=X.dtype, ensure_non_negative=True, copy=True
        )
        if not weights.any():
            raise InvalidValueError(
                "sample_weight is zero for all examples: none is left to learn from"
            )
        labels = np.searchsorted(self.classes_, y)
        return Examples(X, torch.from_numpy(labels), torch.from_numpy(weights), scaling)

    def _measured(self, examples: Examples) -> MeasuredNoise | None:
        """The noise, if it is to be measured and can be."""
        if self.noise_rate != "auto":
            return None
        if len(examples) < FEWEST_EXAMPLES:
            trouble = (
                f"{len(examples)} examples are too few to measure their noise, it takes "
                f"{FEWEST_EXAMPLES}: training as if there were none; give noise_rate"
            )
            warnings.warn(trouble, UnmeasuredNoiseWarning, stacklevel=3)
            return None
        noise = measure_by_halves(examples, self._plain_learner, self.max_iter, self._seed)
        if noise.held_out.is_underfit:
            trouble = (
                f"training as if there were no noise: {noise.estimate.diagnostics.warnings[-1]}"
            )
            warnings.warn(trouble, UnmeasuredNoiseWarning, stacklevel=3)
        return noise

    def _plain_learner(self, half: Examples) -> Learner:
        """One to measure the noise with; if Ctrl-C comes meanwhile, the first is the model."""
        pace = replace(self._pace(), average_epochs=1.0)
        learner = self._new_learner(CrossEntropy(), None, pace, len(half))
        self._learner = self._learner or learner
        return learner

    def _objective(self, noise: MeasuredNoise | None) -> tuple[Loss, float | None]:
        """The loss and the bound for the noise that there is."""
        num_classes = len(self.classes_)
        self.noise_estimate_ = None if noise is None else noise.estimate
        if noise is not None:
            self.noise_rate_ = noise.noise_rate
        else:
            self.noise_rate_ = 0.0 if self.noise_rate == "auto" else float(self.noise_rate)
        rate = torch.tensor(self.noise_rate_, dtype=torch.float64)
        self._transition = (
            symmetric_columns(rate, num_classes) if noise is None else noise.transition
        )
        criterion = self._criterion(noise)
        if self.bound != "auto":
            self.bound_ = None if self.bound is None else float(self.bound)
        elif noise is not None:
            self.bound_ = noise.bound(criterion).level
        else:
            self.bound_ = float(noise_bound(criterion, self.noise_rate_, num_classes))
        return criterion, self.bound_

    def _criterion(self, noise: MeasuredNoise | None) -> Loss:
        if isinstance(self.loss, Loss):
            return copy.deepcopy(self.loss)
        name = self.loss.removesuffix("+b")
        if noise is not None and name in CORRECTIONS:
            return CORRECTIONS[name](noise.transition)
        loss = create_loss(name, noise_rate=self.noise_rate_, num_classes=len(self.classes_))
        assert isinstance(loss, Loss)
        return loss

    def _refuse_class_weights(self) -> None:
        """Their floor would need the shares of the true classes, which nobody knows yet."""
        has_weights = (
            isinstance(self.loss, Loss) and self.loss.class_weights(len(self.classes_)) is not None
        )
        if has_weights and self.bound == "auto":
            raise InvalidValueError(
                "the floor of a loss with class weights, or one that ignores a class, is not known "
                "from the noise alone: pass sample_weight to fit instead, or a bound"
            )

    def _pace(self) -> Pace:
        return Pace(
            int(self.batch_size), self.learning_rate, self.alpha, self.average_epochs, self._seed
        )

    def _new_learner(
        self, criterion: Loss, bound: float | None, pace: Pace, num_examples: int
    ) -> Learner:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network = mlp((self.n_features_in_,), len(self.classes_), self._hidden_widths())
        dtype = torch.from_numpy(np.empty(0, self._dtype)).dtype
        return Learner(network.to(dtype), criterion, bound, pace, num_examples)

    def _train(self, learner: Learner, examples: Examples) -> None:
        epochs = int(self.max_iter)
        with Display(type(self).__name__, epochs, [], self.verbose) as display:
            for epoch in range(1, epochs + 1):
                self.loss_curve_.append(learner.epoch(examples))
                display.update(
                    {"epoch": epoch, "train_loss": self.loss_curve_[-1], "bound": learner.bound}
                )

    def _conclude(self, learner: Learner) -> None:
        self.network_ = learner.averaged.module
        self.n_iter_ = learner.epochs_done

    def _judge(self, whole: Examples, kept: Tensor, noise: MeasuredNoise | None) -> None:
        """Which labels are probably wrong; it takes to know how noisy they are."""
        assert self._learner is not None
        if np.isnan(self.noise_rate_):
            self.suspicion_, self.suspects_ = np.full(len(whole), np.nan), np.empty(0, np.int64)
            return
        held_out = None if noise is None else replace(noise.held_out, positions=kept)
        probs = self._learner.logits(whole.rows, whole.scaling).double().softmax(1)
        suspects = judged_labels(
            probs, whole.labels, self._learner.criterion, self._transition, held_out
        )
        ranking = suspects.ranking
        self.suspicion_ = suspects.probability.numpy()
        self.suspects_ = ranking[suspects.score[ranking] > 0].numpy()
