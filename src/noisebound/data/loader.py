"""Batches: examples by index, normalized and augmented, without Python per example."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Num, Shaped
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.dataset import Dataset
from noisebound.data.rows import Rows, SparseRows, TensorRows, as_rows
from noisebound.errors import InvalidValueError

# Larger inputs are normalized batch by batch, which needs less memory: 128 MiB as float32.
_MOST_NORMALIZED_ONCE = 2**25  # heuristic


@dataclass(frozen=True)
class Normalization:
    """``(x - mean) / std`` per channel of images, or per feature.

    Args:
        mean: one constant per channel or feature; empty to leave inputs unchanged
        std: likewise, each positive

    Example:
        >>> images = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
        >>> Normalization.of(images)
        Normalization(mean=(127.5,), std=(127.5,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def identity(cls) -> "Normalization":
        """Return the normalization that changes nothing, for scaled inputs."""
        return cls((), ())

    @classmethod
    def of(
        cls,
        inputs: Shaped[Tensor, "n channels ..."] | Rows,
        weights: Float[Tensor, " n"] | None = None,
        *,
        least_deviation: float = 0.0,
    ) -> "Normalization":
        """Return the constants of images of bytes, or of features; a constant one is only shifted.

        Features of the same unit also count as constant if their deviation is below
        ``least_deviation`` times the median deviation.
        """
        if inputs.dtype == torch.uint8:
            mean, variance = _byte_moments(as_rows(inputs).blocks())
            varies = variance > 0
        else:
            mean, variance = _moments(as_rows(inputs), weights)
            # Variation within rounding error is noise of the number format, not of the data.
            rounding = 10 * torch.finfo(inputs.dtype).eps * mean.abs()
            varies = variance > rounding.square()
        if least_deviation and bool(varies.any()):
            varies &= variance.sqrt() >= least_deviation * variance[varies].sqrt().median()
        std = torch.where(varies, variance, 1).sqrt()
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def __call__(self, inputs: Shaped[Tensor, "n channels ..."]) -> Float[Tensor, "n channels ..."]:
        """Return the normalized inputs: float64 if they are, else float32."""
        if self.mean and inputs.shape[1] != len(self.mean):
            raise InvalidValueError(
                f"these constants are for {len(self.mean)} channels or features, "
                f"got inputs of shape {tuple(inputs.shape)}"
            )
        return self.for_inputs(inputs.ndim, inputs.dtype, inputs.device)(inputs)

    def for_inputs(
        self, ndim: int, dtype: torch.dtype, device: torch.device
    ) -> Callable[[Tensor], Tensor]:
        """Return the same as a function for inputs of this kind, with its constants made once."""
        if dtype == torch.int32:  # tokens
            return _unchanged
        target = dtype if dtype == torch.float64 else torch.float32
        if not self.mean:
            return lambda inputs: inputs.to(target)
        shape = (1, -1) + (1,) * (ndim - 2)
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        scale = (1 / std).to(target).view(shape).to(device)
        shift = (-mean / std).to(target).view(shape).to(device)
        # One pass converts and scales, much cheaper than a conversion first.
        return lambda inputs: (inputs * scale).add_(shift)


def _unchanged(inputs: Tensor) -> Tensor:
    return inputs


def _byte_moments(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and variance per channel, exactly, from the counts of the 256 values."""
    values = torch.arange(256, dtype=torch.float64)
    per_block = [
        torch.stack([channel.flatten().bincount(minlength=256) for channel in images.unbind(1)])
        for images in blocks
    ]
    counts = torch.stack(per_block).sum(0).double()
    shares = counts / counts.sum(1, keepdim=True)
    mean = shares @ values
    return mean, (shares * (values - mean[:, None]).square()).sum(1)


def _moments(rows: Rows, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variance; each block is merged with the blocks before it.

    They are in float64, because long sums lose their digits in float32.
    """
    mean, variance = torch.zeros(2, rows.shape[1], dtype=torch.float64)
    total, stop = 0.0, 0
    for block in rows.blocks():
        start, stop = stop, stop + len(block)
        own = torch.ones(len(block)) if weights is None else weights[start:stop]
        weight = own.sum(dtype=torch.float64).item()
        if weight == 0:
            continue
        columns = block.double().transpose(0, 1).flatten(1)
        per_value = columns.shape[1] // len(block)
        shares = (own.double() / (weight * per_value)).repeat_interleave(per_value)
        block_mean = columns @ shares
        block_variance = (columns - block_mean[:, None]).square_() @ shares
        total += weight
        share = weight / total
        between = (1 - share) * (block_mean - mean).square()
        variance = torch.lerp(variance, block_variance + between, share)
        mean = torch.lerp(mean, block_mean, share)
    return mean, variance


Moves: TypeAlias = Int64[Tensor, "n 3"]
"""For each image the row and the column where its crop begins, and 1 if it is mirrored, else 0."""


@dataclass(frozen=True)
class CropAndFlip:
    """Pad images with zeros, crop them to their old size at random, and mirror a random half.

    Args:
        padding: number of zeros on each side, in pixels; 0 for no crop
        flip: mirror images; False for digits and letters
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_count("padding", self.padding, least=0)

    def draw(self, n: int, generator: torch.Generator) -> Moves:
        offsets = torch.randint(2 * self.padding + 1, (n, 2), generator=generator)
        is_flipped = (torch.rand(n, 1, generator=generator) < 0.5) & self.flip
        return torch.cat([offsets, is_flipped.long()], 1)

    def apply(
        self, images: Num[Tensor, "n channels height width"], moves: Moves
    ) -> Num[Tensor, "n channels height width"]:
        rows, columns, is_flipped = moves.to(images.device).unbind(1)
        if self.padding:
            height, width = images.shape[2:]
            padded = F.pad(images, (self.padding,) * 4)
            # A view of every possible crop; one crop per image is copied.
            crops = padded.unfold(2, height, 1).unfold(3, width, 1)
            images = crops[torch.arange(len(images), device=images.device), :, rows, columns]
        if self.flip:
            images = torch.where(is_flipped.bool().view(-1, 1, 1, 1), images.flip(3), images)
        return images


class Batch(NamedTuple):
    """One rank's share of a batch."""

    x: Float[Tensor, "batch ..."]  # normalized inputs
    y: Num[Tensor, "batch ..."]  # class indices, or probabilities where the data set has targets
    indices: Int64[Tensor, " batch"]  # the examples' positions in the data set
    weights: Float[Tensor, " batch"] | None  # None if all are one
    total: float  # the weight of the whole batch, over all ranks


class Loader:
    """Batches of a data set, epoch after epoch; any epoch can be made again exactly.

    An epoch's order depends only on ``(seed, epoch)``. Each batch is divided over the ranks: every
    example goes to one of them, and together they see the batches of a single process. Batches are
    as equal in size as possible: a few leftover examples could not show whether the loss is below
    the bound.

    Args:
        data: the examples
        batch_size: the largest batch, counted over all ranks; exceeded only where a rank would
            otherwise get no example
        normalization: usually `Normalization.of` the training inputs
        seed: decides every order and every augmentation
        shuffle: False for evaluation, in the order of the data set
        augmentation: moves the images of each batch at random
        rank: the number of this process, from 0
        world_size: the number of processes
        device: where the batches go; a data set that is not too large is moved there once
        keep_sparse: True to yield sparse rows as sparse tensors, for a network that takes them

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
        if not 0 <= rank < world_size:
            raise InvalidValueError(f"rank must be below world_size {world_size}, got {rank}")
        if min(len(data), batch_size) < world_size:
            raise InvalidValueError(
                f"{len(data)} examples in batches of {batch_size} cannot be divided over "
                f"{world_size} ranks: batch_size counts all ranks, and each needs an example"
            )
        if augmentation is not None and not data.is_images:
            raise InvalidValueError(
                "augmentation moves images; these inputs are features: pass None"
            )
        self.device = torch.device(device)
        self._keeps_sparse = keep_sparse
        self.labels = (data.labels if data.targets is None else data.targets).to(device)
        self.weights = data.weights
        self._rows = rows = data.rows.on(self.device)
        self._normalize = normalization.for_inputs(rows.ndim, rows.dtype, self.device)
        is_small = math.prod(rows.shape) <= _MOST_NORMALIZED_ONCE
        if is_small and augmentation is None and isinstance(rows, TensorRows):
            self._rows = TensorRows(self._normalize(rows.whole().to(self.device)))
            self._normalize = _unchanged
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
        n, moves = len(self.labels), None
        order = torch.arange(n)
        if self.shuffle or self.augmentation:
            generator = torch.Generator().manual_seed(derived_seed(self.seed, epoch))
            order = torch.randperm(n, generator=generator) if self.shuffle else order
            # Drawn for all ranks, so that the number of ranks does not change how an image moves.
            moves = self.augmentation.draw(n, generator) if self.augmentation else None
        stop = 0
        for size in self.batch_sizes():
            start, stop = stop, stop + size
            mine = slice(start + self.rank, stop, self.world_size)
            total = float(size)
            if self.weights is not None:
                total = self.weights[order[start:stop]].sum(dtype=torch.float64).item()
            yield self._batch(order[mine], None if moves is None else moves[mine], total)

    def _batch(self, indices: Int64[Tensor, " batch"], moves: Moves | None, total: float) -> Batch:
        at = indices.to(self.device)
        if self._keeps_sparse and isinstance(self._rows, SparseRows):
            x = self._rows.sparse(indices).to(self.device)
        else:
            x = self._rows.dense(indices).to(self.device)
        if self.augmentation and moves is not None:
            x = self.augmentation.apply(x, moves)
        weights = None if self.weights is None else self.weights[indices].to(self.device)
        return Batch(self._normalize(x), self.labels.index_select(0, at), indices, weights, total)


def derived_seed(*parts: int) -> int:
    """Return one seed for several numbers; neighboring numbers give unrelated seeds."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)
