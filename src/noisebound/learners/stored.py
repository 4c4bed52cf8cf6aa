"""Fitted models: ensembles, and estimators as bytes by skops, which loads only known types."""

from collections.abc import Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree
from torch import Tensor, nn

from noisebound.data.dataset import stratified_indices
from noisebound.errors import DataError, InvalidTypeError
from noisebound.learners.estimators import AnyEstimator, FittedEstimator
from noisebound.learners.neighbors import FittedNeighbors
from noisebound.training.data import TrainingData

_TRUSTED = (
    "scipy.sparse._csr.csr_array",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.feature_selection._mutual_info.mutual_info_classif",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
)
"""Types of fitted estimators that skops does not trust by itself."""

_ENOUGH = 1_000  # examples that show which types a fitted estimator has


class Ensemble(nn.Module):
    """The mean of the probabilities of several models, as logits."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Float[Tensor, "n ..."]) -> Float[Tensor, "n classes"]:
        total = torch.zeros((), device=inputs.device)
        for member in self.members:  # one by one, because networks may compute in float64
            total = total + member(inputs).softmax(1)
        return (total / len(self.members)).clamp(min=torch.finfo(torch.float32).tiny).log()


def members_of(model: nn.Module) -> list[nn.Module]:
    """Return the members of an ensemble, or the model alone."""
    return list(model.members) if isinstance(model, Ensemble) else [model]


def joined(members: Sequence[nn.Module]) -> nn.Module:
    """Return an ensemble, or its only member."""
    return members[0] if len(members) == 1 else Ensemble(members)


def estimators_of(model: nn.Module) -> list[Any]:
    """Return the estimators in a model, None for a network."""
    return [getattr(member, "estimator", None) for member in members_of(model)]


def dumped(estimators: Sequence[Any]) -> bytes:
    """Return estimators as bytes, or refuse those that could not be loaded again."""
    from skops.io import dumps

    content: bytes = dumps(list(estimators))
    check_trusted(content)
    return content


def check_can_be_stored(estimator: Any, data: TrainingData, seed: int) -> None:
    """Refuse an estimator that could not be stored, before time is spent on trials.

    Some have unknown types only once they are fitted, so a few examples are learned.
    """
    dumped([estimator])
    count = min(_ENOUGH, len(data.train) // 2)
    part = data.subset(stratified_indices(data.train.labels, count, seed))
    try:
        model = AnyEstimator(estimator).fit(part, 0, seed)
    except ValueError:  # perhaps these are too few for it, which the trials will show
        return
    dumped(estimators_of(model))


def check_trusted(content: bytes) -> None:
    """Refuse types that nobody has looked at."""
    from skops.io import get_untrusted_types

    unknown = sorted(set(get_untrusted_types(data=content)).difference(_TRUSTED))
    if unknown:
        raise InvalidTypeError(
            f"a run folder cannot hold an estimator with {unknown[0]}, a type that skops does not "
            "know to be safe: use the estimator in NoiseBoundedClassifier, or choose another one"
        )


def rebuilt(
    content: bytes, weights: dict[str, Tensor], network: nn.Module, classes: int
) -> nn.Module:
    """Return a model from its parts; its weights are not loaded yet, and only give the shapes.

    The network takes the place of the member that is not an estimator.
    """
    from skops.io import loads

    try:
        check_trusted(content)
        estimators = loads(content, trusted=list(_TRUSTED))
        _check_trees(estimators, 0)
    except (BadZipFile, InvalidTypeError, ValueError, KeyError, OSError) as error:
        raise DataError(f"the stored estimators cannot be read: {error}") from error
    members = []
    for number, estimator in enumerate(estimators):
        votes = weights.get("votes" if len(estimators) == 1 else f"members.{number}.votes")
        if estimator is None:
            members.append(network)
        elif votes is not None:
            members.append(FittedNeighbors(estimator, torch.empty_like(votes)))
        else:
            members.append(FittedEstimator(estimator, classes))
    return joined(members)


def _check_trees(part: Any, columns: int) -> None:
    """Refuse trees with nodes or features that do not exist: predictions would not check them."""
    columns = getattr(part, "n_features_in_", columns)
    if isinstance(part, Tree):
        _check_nodes(part.children_left, part.children_right, part.feature, columns)
    elif isinstance(part, TreePredictor):
        nodes, is_leaf = part.nodes, part.nodes["is_leaf"].astype(bool)
        left = np.where(is_leaf, -1, nodes["left"].astype(np.int64))
        _check_nodes(left, nodes["right"].astype(np.int64), nodes["feature_idx"], columns)
    elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
        for each in part:
            _check_trees(each, columns)
    elif isinstance(part, dict):
        _check_trees(list(part.values()), columns)
    elif isinstance(part, BaseEstimator):
        _check_trees(vars(part), columns)


def _check_nodes(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], columns: int
) -> None:
    """Refuse children that do not come after their parents, and columns that do not exist."""
    places = np.flatnonzero(left != -1)
    children = np.stack([left[places], right[places]])
    columns_used = feature[places]
    are_nodes = (children > places).all() and (children < len(left)).all()
    if not (are_nodes and (columns_used >= 0).all() and (columns_used < columns).all()):
        raise ValueError("a tree has nodes or columns that do not exist")
