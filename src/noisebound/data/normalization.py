"""Mean zero and deviation one, by constants taken from the training inputs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

from noisebound.errors import InvalidValueError


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
        if inputs.shape[1] != len(self.mean):
            raise InvalidValueError(
                f"these constants are for {len(self.mean)} channels or features, "
                f"got inputs of shape {tuple(inputs.shape)}"
            )
        return self.for_shape(inputs.ndim, inputs.device)(inputs)

    def for_shape(self, ndim: int, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The same for inputs of so many dimensions, with its constants made once."""
        shape = (1, -1) + (1,) * (ndim - 2)
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        scale = (1 / std).float().view(shape).to(device)
        shift = (-mean / std).float().view(shape).to(device)
        # one pass converts and scales: much cheaper than a conversion first
        return lambda inputs: (inputs * scale).add_(shift)


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
