"""Features of which most are zero, as TF-IDF gives them: stored sparse, read batch by batch."""

import hashlib
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

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

    def sparse(self, indices: Int64[Tensor, " m"]) -> Float[Tensor, "m features"]:
        """Return these rows as a sparse tensor, for a network that `takes_sparse`."""
        rows = self.matrix[indices.numpy()]
        row_of_value = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        places = np.stack([row_of_value, rows.indices.astype(np.int64)])
        return torch.sparse_coo_tensor(
            torch.from_numpy(places),
            torch.from_numpy(rows.data),
            rows.shape,
            is_coalesced=bool(rows.has_canonical_format),
            check_invariants=False,
        )

    def fingerprint(self) -> str:
        """Hash of the shape, the type and every value that is stored, with its place."""
        digest = hashlib.sha256(f"sparse {tuple(self.shape)} {self.dtype}".encode())
        for array in (self.matrix.indptr, self.matrix.indices, self.matrix.data):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def takes_sparse(network: nn.Module) -> bool:
    """True if a network begins with a linear layer, which multiplies sparse rows as they are.

    A layer that holds another one, such as factors of its inputs, may need them dense.
    """
    if not isinstance(network, nn.Sequential):
        return False
    layers = [layer for layer in network if not isinstance(layer, nn.Flatten)]
    return bool(layers) and isinstance(layers[0], nn.Linear) and not list(layers[0].children())
