"""The inputs of examples as rows: selected without a copy, and read batch by batch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from noisebound.data.checksums import RowChecksums
from noisebound.system.files import fingerprint_of_blocks

_BLOCK_BYTES = 2**22  # held at once when all rows are gone through: a choice, small for any memory
HELD_IN_MEMORY = 2**30  # bytes: a choice; features that take more stay in a file that is mapped
_MOST_ON_DEVICE = 2**31  # bytes: a choice; larger data goes to a device batch by batch


class Rows(ABC):
    """The inputs of examples, one row per example.

    A selection of rows shares the memory, or the mapped file, of what it was selected from. Only
    the rows that are asked for are ever copied.
    """

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """The number of rows, and then the shape of one."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type of the numbers."""

    @abstractmethod
    def select(self, indices: Int64[Tensor, " m"]) -> "Rows":
        """Return these rows, in this order, without a copy of dense inputs."""

    @abstractmethod
    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        """Return a copy of these rows as a tensor."""

    def on(self, device: torch.device) -> "Rows":
        """Return the rows on a device, or as they are if batches are to be moved one by one."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """The number of dimensions, that of the rows included."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all rows as a tensor, in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def blocks(self, size: int | None = None) -> Iterator[Shaped[Tensor, "m ..."]]:
        """Yield all rows in order, a few at a time; they are to be read and not changed.

        Args:
            size: number of rows per block; None for as many as take 4 MB
        """
        size = size or max(1, _BLOCK_BYTES // max(1, self.nbytes // max(1, len(self))))
        for start in range(0, len(self), size):
            yield self._block(start, min(start + size, len(self)))

    def _block(self, start: int, stop: int) -> Tensor:
        return self.dense(torch.arange(start, stop))

    def fingerprint(self) -> str:
        """Hash of the shape, the type and every byte, the same as that of the rows as a tensor."""
        return fingerprint_of_blocks(self.shape, self.dtype, self.blocks())


class TensorRows(Rows):
    """Some rows of a tensor, which may be a file that is mapped into memory.

    Args:
        tensor: the rows to choose from
        positions: the rows of the tensor that these are, in order; None for all
        checksums: of the tensor's rows, which are checked as they are first read; None for rows
            that cannot have been damaged on a disk
    """

    def __init__(
        self,
        tensor: Shaped[Tensor, "total ..."],
        positions: Int64[Tensor, " n"] | None = None,
        checksums: RowChecksums | None = None,
    ) -> None:
        self.tensor, self.positions, self.checksums = tensor, positions, checksums

    @property
    def shape(self) -> torch.Size:
        """The number of rows, and then the shape of one."""
        count = len(self.tensor) if self.positions is None else len(self.positions)
        return torch.Size((count, *self.tensor.shape[1:]))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers."""
        return self.tensor.dtype

    def select(self, indices: Int64[Tensor, " m"]) -> "TensorRows":
        """Return these rows, in this order, as a view of the same tensor."""
        return TensorRows(self.tensor, self._at(indices), self.checksums)

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        """Return a copy of these rows as a tensor."""
        at = self._at(indices)
        rows = self.tensor.index_select(0, at.to(self.tensor.device))
        if self.checksums is not None:
            self.checksums.check(rows, at)
        return rows

    def whole(self) -> Shaped[Tensor, "n ..."]:
        """Return all rows as one tensor: the very one that these are rows of, or else a copy."""
        if self.positions is not None:
            return self.dense(torch.arange(len(self)))
        for _ in self.blocks():  # which checks them
            pass
        return self.tensor

    def on(self, device: torch.device) -> "TensorRows":
        """Return the rows on a device, if they are not too large for one."""
        if device == self.tensor.device or self.nbytes > _MOST_ON_DEVICE:
            return self
        return TensorRows(self.whole().to(device))

    def _at(self, indices: Tensor) -> Tensor:
        return indices if self.positions is None else self.positions.index_select(0, indices)

    def _block(self, start: int, stop: int) -> Tensor:
        if self.positions is not None:
            return self.dense(torch.arange(start, stop))
        rows = self.tensor[start:stop]
        if self.checksums is not None:
            self.checksums.check(rows, torch.arange(start, stop))
        return rows


class JoinedRows(Rows):
    """Rows of features side by side, such as embeddings and the columns of a table.

    Args:
        left: the first features of each row
        right: the others
    """

    def __init__(self, left: Rows, right: Rows) -> None:
        self.left, self.right = left, right

    @property
    def shape(self) -> torch.Size:
        """The number of rows, and of all features."""
        return torch.Size((len(self.left), self.left.shape[1] + self.right.shape[1]))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the first features."""
        return self.left.dtype

    def select(self, indices: Int64[Tensor, " m"]) -> "JoinedRows":
        """Return these rows of both, without a copy."""
        return JoinedRows(self.left.select(indices), self.right.select(indices))

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m features"]:
        """Return a copy of these rows as a tensor."""
        left, right = self.left.dense(indices), self.right.dense(indices)
        return torch.cat([left, right.to(left.dtype)], dim=1)


def held(features: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "n ..."]:
    """Return the features of a mapped file, in memory unless they are many.

    A system that gives mapped pages back reads them again row by row in each epoch: a training on
    50,000 embeddings took twelve times as long.
    """
    return features.clone() if features.nbytes <= HELD_IN_MEMORY else features


def as_rows(inputs: Shaped[Tensor, "n ..."] | Rows) -> Rows:
    """Return inputs as rows, whether they are a tensor or rows already."""
    return TensorRows(inputs) if isinstance(inputs, Tensor) else inputs
