"""Mean zero and deviation one, by constants taken from the training inputs."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float32, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Normalization:
    """``(x - mean) / std`` for each channel of images, or for each feature.

    Example:
        >>> images = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
        >>> Normalization.of(images)
        Normalization(mean=(127.5,), std=(127.5,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, inputs: Shaped[Tensor, "n channels ..."]) -> "Normalization":
        """The constants of these inputs; a channel that never varies is only shifted."""
        mean, variance = _byte_moments(inputs) if inputs.dtype == torch.uint8 else _moments(inputs)
        std = torch.where(variance > 0, variance, 1).sqrt()
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def __call__(
        self, inputs: Shaped[Tensor, "n channels ..."]
    ) -> Float32[Tensor, "n channels ..."]:
        """The normalized inputs, as float32."""
        scale, shift = _scale_and_shift(self, inputs.ndim, inputs.device)
        # one pass converts and scales: much cheaper than a conversion first
        return (inputs * scale).add_(shift)


@lru_cache(maxsize=16)
def _scale_and_shift(
    normalization: Normalization, ndim: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    shape = (1, -1) + (1,) * (ndim - 2)
    mean, std = torch.tensor([normalization.mean, normalization.std], dtype=torch.float64)
    scale, shift = 1 / std, -mean / std
    return scale.float().view(shape).to(device), shift.float().view(shape).to(device)


def _byte_moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Exact, from how often each of the 256 values occurs."""
    values = torch.arange(256, dtype=torch.float64)
    counts = torch.stack(
        [torch.bincount(channel.flatten(), minlength=256) for channel in images.unbind(1)]
    ).double()
    shares = counts / counts.sum(1, keepdim=True)
    mean = shares @ values
    return mean, (shares * (values - mean[:, None]).square()).sum(1)


def _moments(inputs: Tensor) -> tuple[Tensor, Tensor]:
    columns = inputs.double().transpose(0, 1).flatten(1)
    return columns.mean(1), columns.var(1, correction=0)
