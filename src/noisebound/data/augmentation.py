"""Random crops and flips of a whole batch at once."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int64, Num
from torch import Tensor

from noisebound.checks import check_count


@dataclass(frozen=True, eq=False)
class Moves:
    """How each image of a batch is moved.

    Args:
        offsets: row and column at which each crop begins in the padded image
        is_flipped: True for each image that is mirrored
    """

    offsets: Int64[Tensor, "n 2"]
    is_flipped: Bool[Tensor, " n"]

    def __getitem__(self, positions: slice) -> "Moves":
        return Moves(self.offsets[positions], self.is_flipped[positions])


@dataclass(frozen=True)
class CropAndFlip:
    """Pad images with zeros, crop them to their old size at random, and mirror a random half.

    Args:
        padding: number of zeros on each side, in pixels; 0 for no crop
        flip: True if left and right may be exchanged, which does not suit digits and letters
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_count("padding", self.padding, least=0)

    def draw(self, n: int, generator: torch.Generator) -> Moves:
        """Return random moves for ``n`` images."""
        offsets = torch.randint(2 * self.padding + 1, (n, 2), generator=generator)
        coins = torch.rand(n, generator=generator)
        return Moves(offsets, (coins < 0.5) & self.flip)

    def apply(
        self, images: Num[Tensor, "n channels height width"], moves: Moves
    ) -> Num[Tensor, "n channels height width"]:
        """Return the images after their moves."""
        if self.padding:
            images = self._crop(images, moves.offsets.to(images.device))
        if self.flip:
            mirrored = moves.is_flipped.to(images.device).view(-1, 1, 1, 1)
            images = torch.where(mirrored, images.flip(3), images)
        return images

    def _crop(self, images: Tensor, offsets: Tensor) -> Tensor:
        n, _, height, width = images.shape
        padded = F.pad(images, (self.padding,) * 4)
        # A view of every possible crop; one crop per image is copied.
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        return crops[torch.arange(n, device=images.device), :, offsets[:, 0], offsets[:, 1]]
