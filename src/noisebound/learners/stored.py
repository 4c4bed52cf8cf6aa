"""Fitted estimators as bytes, by skops: nothing is unpickled, and only known types are loaded."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from noisebound.errors import DataError, InvalidTypeError
from noisebound.learners.ensemble import Ensemble
from noisebound.learners.estimators import FittedEstimator
from noisebound.learners.neighbors import FittedNeighbors

_TRUSTED = (
    "scipy.sparse._csr.csr_array",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)
"""Types of fitted estimators that skops does not trust by itself."""


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


def check_trusted(content: bytes) -> None:
    """Refuse types that nobody has looked at."""
    from skops.io import get_untrusted_types

    unknown = sorted(set(get_untrusted_types(data=content)).difference(_TRUSTED))
    if unknown:
        raise InvalidTypeError(
            f"a run folder cannot hold an estimator with {unknown[0]}, a type that skops does not "
            "know to be safe: use the estimator in NoiseBoundedClassifier, or choose a learner of "
            "scikit-learn's"
        )


def rebuilt(
    content: bytes, weights: dict[str, Tensor], network: nn.Module, classes: int
) -> nn.Module:
    """Return a model from its parts; its weights are not loaded yet.

    Args:
        content: the estimators as `dumped` made them
        weights: those of the whole model, for their shapes
        network: takes the place of the member that is none of the estimators
        classes: the number of classes
    """
    from skops.io import loads

    try:
        check_trusted(content)
        estimators = loads(content, trusted=list(_TRUSTED))
    except (InvalidTypeError, ValueError, KeyError, OSError) as error:
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
