"""The inputs of examples as rows: selected without a copy, read batch by batch."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from noisebound.errors import InvalidTypeError
from noisebound.system.files import fingerprint_of_blocks

# Heuristics, in bytes.
_BLOCK_BYTES = 2**22  # rows in memory at once in a pass over all of them
HELD_IN_MEMORY = 2**30  # larger features stay in a mapped file
_MOST_ON_DEVICE = 2**31  # larger data moves to a device batch by batch


class Rows(ABC):
    """The inputs of examples, one row per example.

    A selection shares the memory, or the mapped file, of the rows it was selected from. Only the
    requested rows are copied.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.shape, self.dtype = torch.Size(shape), dtype

    @abstractmethod
    def select(self, indices: Int64[Tensor, " m"]) -> "Rows":
        """Return these rows, in this order, without a copy of dense inputs."""

    @abstractmethod
    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        """Return a copy of these rows as a tensor."""

    def whole(self) -> Shaped[Tensor, "n ..."]:
        """Return all rows as one tensor: the underlying one, or a copy."""
        return self.dense(torch.arange(len(self)))

    def on(self, device: torch.device) -> "Rows":
        """Return the rows on a device; unchanged if batches should be moved one by one."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def blocks(self, size: int | None = None) -> Iterator[Shaped[Tensor, "m ..."]]:
        """Yield all rows in order, ``size`` at a time (default: 4 MB); do not change them."""
        size = size or max(1, _BLOCK_BYTES // max(1, self.nbytes // max(1, len(self))))
        for start in range(0, len(self), size):
            yield self._block(start, min(start + size, len(self)))

    def _block(self, start: int, stop: int) -> Tensor:
        return self.dense(torch.arange(start, stop))

    def fingerprint(self) -> str:
        """Hash of the shape, the type and every byte; equal to that of one tensor of the rows."""
        return fingerprint_of_blocks(self.shape, self.dtype, self.blocks())


class TensorRows(Rows):
    """All or some rows of a tensor, which may be a file that is mapped into memory."""

    def __init__(
        self, tensor: Shaped[Tensor, "total ..."], positions: Int64[Tensor, " n"] | None = None
    ) -> None:
        count = len(tensor if positions is None else positions)
        super().__init__((count, *tensor.shape[1:]), tensor.dtype)
        self.tensor, self.positions = tensor, positions

    def select(self, indices: Int64[Tensor, " m"]) -> "TensorRows":
        return TensorRows(self.tensor, self._at(indices))

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        return self.tensor.index_select(0, self._at(indices).to(self.tensor.device))

    def whole(self) -> Shaped[Tensor, "n ..."]:
        return self.tensor if self.positions is None else super().whole()

    def on(self, device: torch.device) -> "TensorRows":
        if device == self.tensor.device or self.nbytes > _MOST_ON_DEVICE:
            return self
        return TensorRows(self.whole().to(device))

    def _at(self, indices: Tensor) -> Tensor:
        return indices if self.positions is None else self.positions.index_select(0, indices)

    def _block(self, start: int, stop: int) -> Tensor:
        if self.positions is None:
            return self.tensor[start:stop]
        return self.dense(torch.arange(start, stop))


class JoinedRows(Rows):
    """Rows of features side by side, such as embeddings and the columns of a table."""

    def __init__(self, left: Rows, right: Rows) -> None:
        super().__init__((len(left), left.shape[1] + right.shape[1]), left.dtype)
        self.left, self.right = left, right

    def select(self, indices: Int64[Tensor, " m"]) -> "JoinedRows":
        return JoinedRows(self.left.select(indices), self.right.select(indices))

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m features"]:
        left, right = self.left.dense(indices), self.right.dense(indices)
        return torch.cat([left, right.to(left.dtype)], dim=1)


def in_memory_if_small(features: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "n ..."]:
    """Return the features of a mapped file, copied into memory if they are at most 1 GiB.

    A system that evicts mapped pages reads them again in each epoch: a training on 50,000
    embeddings took twelve times as long.
    """
    return features.clone() if features.nbytes <= HELD_IN_MEMORY else features


def as_rows(inputs: Shaped[Tensor, "n ..."] | Rows) -> Rows:
    """Return inputs as rows, whether they are a tensor or rows already."""
    return TensorRows(inputs) if isinstance(inputs, Tensor) else inputs


class SparseRows(Rows):
    """The rows of a scipy matrix or array in CSR form, float32 or float64."""

    def __init__(self, matrix: Any) -> None:
        if getattr(matrix, "format", None) != "csr":
            raise InvalidTypeError(
                f"sparse features must be a scipy matrix in CSR form, got {type(matrix).__name__}: "
                "call its tocsr()"
            )
        super().__init__(matrix.shape, torch.from_numpy(matrix.data[:0]).dtype)
        self.matrix = matrix

    def select(self, indices: Int64[Tensor, " m"]) -> "SparseRows":
        return SparseRows(self.matrix[indices.numpy()])

    def dense(self, indices: Int64[Tensor, " m"]) -> Float[Tensor, "m features"]:
        return torch.from_numpy(self.matrix[indices.numpy()].toarray())

    def sparse(self, indices: Int64[Tensor, " m"]) -> Float[Tensor, "m features"]:
        """Return these rows as a sparse tensor, for a network that `takes_sparse`."""
        rows = self.matrix[indices.numpy()]
        row_of_value = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        places = torch.from_numpy(np.stack([row_of_value, rows.indices.astype(np.int64)]))
        is_coalesced, values = bool(rows.has_canonical_format), torch.from_numpy(rows.data)
        return torch.sparse_coo_tensor(
            places, values, rows.shape, is_coalesced=is_coalesced, check_invariants=False
        )

    def fingerprint(self) -> str:
        """Hash of the shape, the type and every stored value, with its place."""
        digest = hashlib.sha256(f"sparse {tuple(self.shape)} {self.dtype}".encode())
        for array in (self.matrix.indptr, self.matrix.indices, self.matrix.data):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def takes_sparse(network: nn.Module) -> bool:
    """True if a network begins with a plain linear layer, which multiplies sparse rows directly.

    A layer with children, such as one that scales its inputs first, may need dense rows.
    """
    if not isinstance(network, nn.Sequential):
        return False
    layers = [layer for layer in network if not isinstance(layer, nn.Flatten)]
    return bool(layers) and isinstance(layers[0], nn.Linear) and not list(layers[0].children())
