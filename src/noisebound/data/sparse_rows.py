"""Features of which most are zero, as TF-IDF gives them: stored sparse, and dense per batch."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from noisebound.data.rows import Rows
from noisebound.errors import InvalidTypeError


class SparseRows(Rows):
    """The rows of a scipy matrix in CSR form.

    Args:
        matrix: a scipy sparse matrix or array in CSR form, float32 or float64
    """

    def __init__(self, matrix: Any) -> None:
        if getattr(matrix, "format", None) != "csr":
            raise InvalidTypeError(
                f"sparse features must be a scipy matrix in CSR form, got {type(matrix).__name__}: "
                "call its tocsr()"
            )
        self.matrix = matrix

    @property
    def shape(self) -> torch.Size:
        """The number of rows and of features."""
        return torch.Size(self.matrix.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers, as torch calls it."""
        return torch.from_numpy(self.matrix.data[:0]).dtype

    def select(self, indices: Int64[Tensor, " m"]) -> "SparseRows":
        """Return these rows, still sparse."""
        return SparseRows(self.matrix[indices.numpy()])

    def dense(self, indices: Int64[Tensor, " m"]) -> Float[Tensor, "m features"]:
        """Return these rows as a tensor."""
        return torch.from_numpy(self.matrix[indices.numpy()].toarray())
