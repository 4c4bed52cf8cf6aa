"""Inputs with mean zero and deviation one, by constants taken from the training inputs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from noisebound.data.rows import Rows, as_rows
from noisebound.errors import InvalidValueError


@dataclass(frozen=True)
class Normalization:
    """``(x - mean) / std`` per channel of images, or per feature.

    Args:
        mean: one constant per channel or feature; none for inputs that stay as they are
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
        """Return the normalization that changes nothing, for inputs that are scaled already."""
        return cls((), ())

    @classmethod
    def of(
        cls,
        inputs: Shaped[Tensor, "n channels ..."] | Rows,
        weights: Float[Tensor, " n"] | None = None,
        *,
        least_deviation: float = 0.0,
    ) -> "Normalization":
        """Return the constants of these inputs; a channel that never varies is only shifted.

        Args:
            inputs: images of bytes, or features
            weights: how much each example counts; None if all count alike
            least_deviation: the deviation below which a feature counts as one that never varies,
                as a share of the median of those that vary; only for features of one unit
        """
        if inputs.dtype == torch.uint8:
            mean, variance = _byte_moments(as_rows(inputs).blocks())
            varies = variance > 0
        else:
            mean, variance = _moments(as_rows(inputs), weights)
            # What varies by rounding alone is noise of the number format, not of the data.
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
        """Return the same for inputs of this kind, with its constants made once."""
        if dtype == torch.int32:  # tokens, which are no numbers
            return lambda inputs: inputs
        target = dtype if dtype == torch.float64 else torch.float32
        if not self.mean:
            return lambda inputs: inputs.to(target)
        shape = (1, -1) + (1,) * (ndim - 2)
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        scale = (1 / std).to(target).view(shape).to(device)
        shift = (-mean / std).to(target).view(shape).to(device)
        # One pass converts and scales: much cheaper than a conversion first.
        return lambda inputs: (inputs * scale).add_(shift)


def _byte_moments(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and variance per channel, exactly, from the counts of the 256 values."""
    values = torch.arange(256, dtype=torch.float64)
    counts = torch.stack([_byte_counts(images) for images in blocks]).sum(0).double()
    shares = counts / counts.sum(1, keepdim=True)
    mean = shares @ values
    return mean, (shares * (values - mean[:, None]).square()).sum(1)


def _byte_counts(images: Tensor) -> Tensor:
    return torch.stack(
        [torch.bincount(channel.flatten(), minlength=256) for channel in images.unbind(1)]
    )


def _moments(rows: Rows, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variance, block by block: those of the blocks so far and the next merge."""
    mean, variance = torch.zeros(2, rows.shape[1], dtype=torch.float64)
    total, stop = 0.0, 0
    for block in rows.blocks():
        start, stop = stop, stop + len(block)
        own = None if weights is None else weights[start:stop]
        weight = float(len(block)) if own is None else own.double().sum().item()
        if weight == 0:
            continue
        total += weight
        share = weight / total
        block_mean, block_variance = _block_moments(block, own)
        between = (1 - share) * (block_mean - mean).square()
        variance = (1 - share) * variance + share * (block_variance + between)
        mean = (1 - share) * mean + share * block_mean
    return mean, variance


def _block_moments(inputs: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variance in float64: long sums lose their digits in float32."""
    columns = inputs.double().transpose(0, 1).flatten(1)
    if weights is None:
        return columns.mean(1), columns.var(1, correction=0)
    per_value = weights.double().repeat_interleave(columns.shape[1] // len(weights))
    shares = per_value / per_value.sum()
    mean = columns @ shares
    return mean, (columns - mean[:, None]).square() @ shares
