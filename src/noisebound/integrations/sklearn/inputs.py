"""Features of scikit-learn's as inputs of a network, scaled as in the first call of `fit`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from torch import Tensor

if TYPE_CHECKING:
    from noisebound.data import Dataset, Normalization
    from noisebound.data.rows import SparseRows

_ROW_LENGTH = 10.0  # as for TF-IDF in `fit`: a network learns little from rows of length one


class InputScaling:
    """The form and scale of the first features, that all later ones are brought to.

    Sparse features keep their zeros: one factor scales all of them to a mean row length of 10.

    Args:
        X: features, dense or sparse
        weights: how much each row counts
        standardize: False to leave the scale as it is
    """

    def __init__(self, X: Any, weights: NDArray[Any], *, standardize: bool) -> None:
        self.is_sparse = issparse(X)
        self.standardize = standardize
        self.factor = 1.0
        self.normalization: Normalization | None = None
        if self.is_sparse and standardize:
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            mean = float(np.average(lengths, weights=weights))
            self.factor = _ROW_LENGTH / mean if mean > 0 else 1.0

    def inputs(self, X: Any) -> "Tensor | SparseRows":
        """Return features in the form of the first ones."""
        from noisebound.data.rows import SparseRows

        is_sparse: bool = issparse(X)
        if not self.is_sparse:
            dense = X.toarray() if is_sparse else X
            return torch.from_numpy(np.require(dense, requirements=["C", "W"]))
        scaled = X.tocsr(copy=True) if is_sparse else csr_array(X)
        scaled.data *= self.factor
        return SparseRows(scaled)

    def normalization_for(self, train: "Dataset") -> "Normalization":
        """Return the normalization of the first training examples."""
        from noisebound.data import Normalization
        from noisebound.training.data import normalization_of

        if self.normalization is None:
            identity = Normalization.identity()
            self.normalization = normalization_of(train) if self.standardize else identity
        return self.normalization
