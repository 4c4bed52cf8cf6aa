"""The scale of sparse features: one factor for all, so that zeros stay zeros."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.rows import SparseRows

_ROW_LENGTH = 10.0  # as in TF-IDF of `fit`: a network learns little from rows of length one


def scaled_rows(X: Any, factor: float | None) -> SparseRows:
    """Return sparse rows, multiplied by a factor."""
    scaled = X.tocsr(copy=True)
    scaled.data *= factor
    return SparseRows(scaled)


def usual_scale(X: Any, weights: NDArray[Any]) -> float:
    """Return the factor by which sparse rows get their usual length."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    length = float(np.average(lengths, weights=weights))
    return _ROW_LENGTH / length if length > 0 else 1.0
