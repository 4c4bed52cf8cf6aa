"""The protocol of learners: train on examples and predict others, stage by stage.

A stage is a point on a learner's path from simple to complex: an epoch of a network, a round of
boosting, the strength of a penalty, the size of a leaf, a number of neighbors. Held-out labels
decide at which stage a learner stops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float32
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from noisebound.data import Dataset, Normalization
from noisebound.data.rows import SparseRows
from noisebound.training.config import LearnerName
from noisebound.training.data import TrainingData

Inputs: TypeAlias = NDArray[Any] | csr_array
Staged: TypeAlias = Float32[Tensor, "stages n classes"]
"""Class probabilities of the same examples at each stage."""

_LEAST_SHARE = 0.05
"""Classes with a smaller share of a soft target get no copy of the example; heuristic."""


class Learner(Protocol):
    """Something that can be trained: a network, or an estimator like those of scikit-learn."""

    @property
    def name(self) -> LearnerName: ...

    @property
    def stages(self) -> Sequence[Any]:
        """Its stages, the simplest first."""

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Train on the training split, and predict other examples at each stage."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """Training examples in numpy's arrays; without weights, all count alike."""

    inputs: Inputs  # normalized, one row per example
    labels: NDArray[Any]  # class indices, or class probabilities ``[n, classes]``
    weights: NDArray[np.float64] | None
    num_classes: int  # some may have no examples

    @classmethod
    def of(cls, data: TrainingData) -> "Arrays":
        """Return the training split; examples without weight are left out."""
        train = data.train
        inputs = inputs_of(train, data.normalization)
        labels = (train.labels if train.targets is None else train.targets).numpy()
        if train.weights is None:
            return cls(inputs, labels, None, train.num_classes)
        weights = train.weights.double().numpy()
        kept = weights > 0
        return cls(inputs[kept], labels[kept], weights[kept], train.num_classes)

    @property
    def targets(self) -> NDArray[Any]:
        """The class probabilities of each example, one-hot for a class index."""
        is_soft = self.labels.ndim == 2
        found: NDArray[Any] = self.labels if is_soft else np.eye(self.num_classes)[self.labels]
        return found

    @property
    def as_copies(self) -> "Arrays":
        """The examples with one label each: a soft target becomes a weighted copy per class."""
        if self.labels.ndim == 1:
            return self
        shares = np.where(self.labels >= _LEAST_SHARE, self.labels, 0.0)
        shares /= np.maximum(shares.sum(1, keepdims=True), _LEAST_SHARE)
        rows, labels = np.nonzero(shares)
        weights = shares[rows, labels]
        if self.weights is not None:
            weights = weights * self.weights[rows]
        return Arrays(self.inputs[rows], labels, weights, self.num_classes)


def inputs_of(examples: Dataset, normalization: Normalization) -> Inputs:
    """Return normalized inputs as a matrix; sparse ones stay sparse."""
    if isinstance(examples.inputs, SparseRows):
        matrix: csr_array = examples.inputs.matrix
        return matrix
    return as_matrix(normalization(examples.dense_inputs))


def as_matrix(inputs: Float[Tensor, "n ..."]) -> NDArray[np.float32]:
    """Return inputs as a matrix of numpy's, one row per example."""
    if inputs.layout != torch.strided:
        inputs = inputs.to_dense()
    matrix: NDArray[np.float32] = inputs.flatten(1).float().cpu().numpy()
    return matrix


def all_classes(
    probs: NDArray[Any], classes: NDArray[Any], num_classes: int
) -> Float32[Tensor, "n classes"]:
    """Return probabilities with a column for each class, zero for those without examples."""
    found = torch.zeros(len(probs), num_classes)
    found[:, torch.from_numpy(np.asarray(classes, dtype=np.int64))] = torch.from_numpy(
        np.asarray(probs, dtype=np.float32)
    )
    return found
