"""Batches by indexing into what is in memory or mapped into it: no Python per example."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.augmentation import CropAndFlip, Moves
from noisebound.data.dataset import Dataset
from noisebound.data.normalization import Normalization
from noisebound.data.sparse_rows import SparseRows
from noisebound.errors import InvalidValueError


class Batch(NamedTuple):
    """One rank's share of a batch.

    Attributes:
        x: normalized inputs
        y: class indices, or class probabilities where the data set has targets
        indices: the examples' positions in the data set
        weights: how much each example counts; None if all count one
        total: the weight of the whole batch, over all ranks
    """

    x: Float[Tensor, "batch ..."]
    y: Num[Tensor, "batch ..."]
    indices: Int64[Tensor, " batch"]
    weights: Float[Tensor, " batch"] | None
    total: float


class Loader:
    """Batches of a data set, epoch after epoch; any epoch can be made again exactly.

    An epoch's order follows from ``(seed, epoch)`` alone. Each batch is divided over the ranks:
    every example goes to just one of them, and together they see what one process would see.
    Batches are as equal as possible: a few leftover examples would make a poor judge of whether the
    loss is below the bound.

    Args:
        data: the examples
        batch_size: the largest batch, counted over all ranks (and exceeded only where a rank would
            be left without an example)
        normalization: usually `Normalization.of` the training inputs
        seed: decides every order and every augmentation
        shuffle: False for evaluation, in the order of the data set
        augmentation: moves the images of each batch at random
        rank: the number of this process, from 0
        world_size: the number of processes
        device: where the batches go; a data set that is not too large is moved there once
        keep_sparse: True to give sparse rows as sparse tensors, for a network that takes them

    Example:
        >>> from noisebound.data import dataset_from_arrays
        >>> data = dataset_from_arrays([[0.0], [1.0], [2.0]], [0, 1, 0])
        >>> loader = Loader(data, batch_size=2, normalization=Normalization.of(data.inputs))
        >>> torch.cat([batch.indices for batch in loader.epoch(0)])
        tensor([1, 0, 2])
    """

    def __init__(
        self,
        data: Dataset,
        batch_size: int,
        *,
        normalization: Normalization,
        seed: int = 0,
        shuffle: bool = True,
        augmentation: CropAndFlip | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str = "cpu",
        keep_sparse: bool = False,
    ) -> None:
        check_count("batch_size", batch_size)
        check_count("world_size", world_size)
        check_count("rank", rank, least=0)
        if rank >= world_size:
            raise InvalidValueError(f"rank must be below world_size {world_size}, got {rank}")
        if len(data) < world_size:
            raise InvalidValueError(
                f"{len(data)} examples cannot be divided over {world_size} ranks"
            )
        if batch_size < world_size:
            raise InvalidValueError(
                f"batch_size counts all {world_size} ranks and must be at least that, "
                f"got {batch_size}"
            )
        if augmentation is not None and not data.is_images:
            raise InvalidValueError(
                "augmentation moves images; these inputs are features: pass None"
            )
        self.device = torch.device(device)
        self.rows, self._keeps_sparse = data.rows.on(self.device), keep_sparse
        self.labels = (data.labels if data.targets is None else data.targets).to(device)
        self.weights = data.weights
        self._normalize = normalization.for_inputs(self.rows.ndim, self.rows.dtype, self.device)
        self.seed, self.shuffle, self.augmentation = seed, shuffle, augmentation
        self.rank, self.world_size = rank, world_size
        # At least one example for each rank in each batch.
        self._num_batches = max(1, min(math.ceil(len(data) / batch_size), len(data) // world_size))

    def __len__(self) -> int:
        """Return the number of batches per epoch, the same on every rank."""
        return self._num_batches

    def batch_sizes(self) -> list[int]:
        """Return how many examples each batch of an epoch has, over all ranks."""
        n = len(self.labels)
        bounds = [n * i // self._num_batches for i in range(self._num_batches + 1)]
        return [stop - start for start, stop in pairwise(bounds)]

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of epoch number ``epoch``."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
        n = len(self.labels)
        order = torch.randperm(n, generator=generator) if self.shuffle else torch.arange(n)
        # Drawn for all ranks, so that an image moves alike however many there are.
        moves = self.augmentation.draw(n, generator) if self.augmentation else None
        stop = 0
        for size in self.batch_sizes():
            start, stop = stop, stop + size
            mine = slice(start + self.rank, stop, self.world_size)
            total = float(size) if self.weights is None else self._weight_of(order[start:stop])
            yield self._batch(order[mine], moves[mine] if moves else None, total)

    def _weight_of(self, indices: Int64[Tensor, " whole"]) -> float:
        assert self.weights is not None
        return self.weights[indices].sum(dtype=torch.float64).item()

    def _batch(self, indices: Int64[Tensor, " batch"], moves: Moves | None, total: float) -> Batch:
        at = indices.to(self.device)
        if self._keeps_sparse and isinstance(self.rows, SparseRows):
            x = self.rows.sparse(indices).to(self.device)
        else:
            x = self.rows.dense(indices).to(self.device)
        if self.augmentation and moves:
            x = self.augmentation.apply(x, moves)
        weights = None if self.weights is None else self.weights[indices].to(self.device)
        return Batch(self._normalize(x), self.labels.index_select(0, at), indices, weights, total)


def derived_seed(*parts: int) -> int:
    """Return one seed for several numbers: unlike their sum, neighbors share nothing."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)
