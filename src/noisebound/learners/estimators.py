"""Learners that fit an estimator of scikit-learn's, or anyone's, at each stage."""

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.learners.learner import Arrays, Staged, all_classes, as_matrix, inputs_of
from noisebound.training.config import LearnerName
from noisebound.training.data import TrainingData

_FEWEST_COLUMNS = 64  # that boosting looks at for a split, of wide tables; heuristic
_TRIED_TREES = 50  # in a trial; heuristic


class FittedEstimator(nn.Module):
    """A fitted estimator as a network: normalized inputs to the logarithms of its probabilities.

    The estimator may have seen fewer classes than there are.
    """

    def __init__(self, estimator: Any, num_classes: int) -> None:
        super().__init__()
        self.estimator, self.num_classes = estimator, num_classes

    def forward(self, inputs: Float[Tensor, "n ..."]) -> Float[Tensor, "n classes"]:
        """Return log-probabilities; a class without examples has the least."""
        probs = self.estimator.predict_proba(as_matrix(inputs))
        found = all_classes(probs, self.estimator.classes_, self.num_classes)
        return found.clamp(min=torch.finfo(torch.float32).tiny).log().to(inputs.device)


class EstimatorLearner(ABC):
    """A learner whose stages are settings of an estimator."""

    name: LearnerName
    stages: Sequence[Any]
    words = ""  # a stage in words, as a format
    final: Mapping[str, Any] = {}  # parameters that only the final training has

    @abstractmethod
    def estimator(self, stage: Any, seed: int) -> Any:
        """Return the estimator of a stage before it is fitted."""

    def describe(self, stage: int) -> str:
        """Return the setting at a stage, in words."""
        return self.words.format(self.stages[stage])

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Train on the training split, and predict other examples at each stage."""
        examples = Arrays.of(data).as_copies
        inputs = [inputs_of(other, data.normalization) for other in others]
        found: list[list[Tensor]] = [[] for _ in others]
        for fitted in self._fitted_stages(examples, seed):
            for each, stages in zip(inputs, found, strict=True):
                probs = fitted.predict_proba(each)
                stages.append(all_classes(probs, fitted.classes_, examples.num_classes))
        return [torch.stack(stages) for stages in found]

    def _fitted_stages(self, examples: Arrays, seed: int) -> Iterator[Any]:
        for stage in self.stages:
            yield fitted(self.estimator(stage, seed), examples)

    def fit(self, data: TrainingData, stage: int, seed: int) -> nn.Module:
        """Train at one stage."""
        examples = Arrays.of(data).as_copies
        estimator = self.estimator(self.stages[stage], seed)
        if self.final:
            estimator.set_params(**self.final)
        return FittedEstimator(fitted(estimator, examples), examples.num_classes)


class Linear(EstimatorLearner):
    """Logistic regression; its stages are inverse strengths of the L2 penalty."""

    name: LearnerName = "linear"
    stages = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    words = "C = {:g}"

    def estimator(self, stage: float, seed: int) -> Any:
        return LogisticRegression(C=stage, max_iter=200, tol=1e-3)

    def _fitted_stages(self, examples: Arrays, seed: int) -> Iterator[Any]:
        regression = self.estimator(self.stages[0], seed).set_params(warm_start=True)
        for stage in self.stages:
            yield fitted(regression.set_params(C=stage), examples)


class Trees(EstimatorLearner):
    """Extremely randomized trees; its stages are sizes of leaves, the largest first."""

    name: LearnerName = "trees"
    stages = (24, 8, 3, 1)
    words = "leaves of {}"
    final: Mapping[str, Any] = {"n_estimators": 200}  # heuristic

    def estimator(self, stage: int, seed: int) -> Any:
        return ExtraTreesClassifier(_TRIED_TREES, min_samples_leaf=stage, random_state=seed)


class Boosting(EstimatorLearner):
    """Histogram gradient boosting; its stages are numbers of rounds."""

    name: LearnerName = "boosting"
    stages = (5, 10, 20, 40, 80)
    words = "{} rounds"

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def estimator(self, stage: int, seed: int) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=stage,
            max_leaf_nodes=15,
            max_features=min(1.0, max(0.1, _FEWEST_COLUMNS / self.columns)),
            early_stopping=False,
            random_state=seed,
        )

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Train for all rounds, and predict other examples after those of each stage."""
        examples = Arrays.of(data).as_copies
        last = fitted(self.estimator(self.stages[-1], seed), examples)
        if not hasattr(last, "staged_predict_proba"):  # all labels are of one class
            return super().predict_stages(data, others, seed)
        found = []
        for other in others:
            staged = last.staged_predict_proba(inputs_of(other, data.normalization))
            kept = [probs for number, probs in enumerate(staged, 1) if number in self.stages]
            classes = examples.num_classes
            found.append(torch.stack([all_classes(each, last.classes_, classes) for each in kept]))
        return found


class AnyEstimator(EstimatorLearner):
    """A user's estimator, which has one stage. It may lack ``sample_weight``."""

    name: LearnerName = "estimator"
    stages = ("as given",)

    def __init__(self, given: Any) -> None:
        self.given = given

    def estimator(self, stage: str, seed: int) -> Any:
        return clone(self.given)


def fitted(estimator: Any, examples: Arrays) -> Any:
    """Return the estimator, fitted; one that takes no weights gets copies by their size.

    Some estimators refuse labels that are all of one class, so a constant takes their place.
    """
    inputs, labels, weights = examples.inputs, examples.labels, examples.weights
    if (labels == labels[0]).all():
        return DummyClassifier().fit(inputs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # held-out labels judge it anyway
        if weights is None or (weights == weights[0]).all():
            return estimator.fit(inputs, labels)
        if "sample_weight" in inspect.signature(estimator.fit).parameters:
            return estimator.fit(inputs, labels, sample_weight=weights)
        copies = np.rint(10 * weights / weights.mean()).astype(int)  # 10 for the mean weight
        rows = np.repeat(np.arange(len(weights)), copies)
        return estimator.fit(inputs[rows], labels[rows])
