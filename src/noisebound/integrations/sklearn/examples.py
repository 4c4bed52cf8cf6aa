"""Weighted rows, dense or sparse, of which batches are taken."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - mean) / deviation`` for each feature."""

    mean: NDArray[Any]
    deviation: NDArray[Any]

    @classmethod
    def none(cls, dtype: Any) -> "Scaling":
        """That changes nothing."""
        return cls(np.zeros(1, dtype), np.ones(1, dtype))

    @classmethod
    def of(cls, rows: NDArray[Any], weights: NDArray[Any]) -> "Scaling":
        """That brings these rows to mean zero and deviation one."""
        # in float64, whatever the rows are in: long sums lose their digits in float32
        shares = weights.astype(np.float64) / weights.sum(dtype=np.float64)
        mean = shares @ rows
        variance = shares @ np.square(rows - mean)
        # what never varies but by rounding is only shifted
        varies = variance > (10 * np.finfo(rows.dtype).eps * np.abs(mean)) ** 2
        deviation = np.sqrt(np.where(varies, variance, 1))
        return cls(mean.astype(rows.dtype), deviation.astype(rows.dtype))


@dataclass(frozen=True, eq=False)
class Examples:
    """What is learnt from.

    Args:
        rows: an array, or a sparse matrix by rows
        labels: class indices
        weights: how much each example counts
        scaling: of the features
    """

    rows: Any
    labels: Int64[Tensor, " n"]
    weights: Float[Tensor, " n"]
    scaling: Scaling

    def __len__(self) -> int:
        return len(self.labels)

    def standardized(self) -> "Examples":
        """With features of mean zero and deviation one; sparse ones would no longer be sparse."""
        if issparse(self.rows):
            return self
        return replace(self, scaling=Scaling.of(self.rows, self.weights.numpy()))

    def inputs(self, chosen: Int64[Tensor, " m"]) -> Float[Tensor, "m features"]:
        """The network's, dense."""
        return dense(self.rows[chosen.numpy()], self.scaling)

    def subset(self, chosen: Int64[Tensor, " m"]) -> "Examples":
        """These only."""
        return replace(
            self,
            rows=self.rows[chosen.numpy()],
            labels=self.labels[chosen],
            weights=self.weights[chosen],
        )


def dense(rows: Any, scaling: Scaling) -> Float[Tensor, "m features"]:
    """Rows as a tensor, scaled if they are not sparse; the given ones are left alone."""
    if issparse(rows):
        return torch.from_numpy(rows.toarray())  # type: ignore[attr-defined]
    return torch.from_numpy((rows - scaling.mean) / scaling.deviation)
