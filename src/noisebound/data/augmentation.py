"""Random crops and flips of a whole batch at once."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from noisebound.checks import check_count


@dataclass(frozen=True, eq=False)
class Moves:
    """How each image is moved: its offset down and across, and whether it is mirrored."""

    offsets: Int64[Tensor, "n 2"]
    is_flipped: Bool[Tensor, " n"]

    def __getitem__(self, positions: slice) -> "Moves":
        return Moves(self.offsets[positions], self.is_flipped[positions])


@dataclass(frozen=True)
class CropAndFlip:
    """Pad by ``padding`` zeros on each side, cut out the old size at random, mirror half of them.

    Args:
        padding: 0 for no crop
        flip: whether left and right may be exchanged (not for digits and letters)
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_count("padding", self.padding, least=0)

    def draw(self, n: int, generator: torch.Generator) -> Moves:
        """Moves for ``n`` images."""
        offsets = torch.randint(2 * self.padding + 1, (n, 2), generator=generator)
        coins = torch.rand(n, generator=generator)
        return Moves(offsets, (coins < 0.5) & self.flip)

    def apply(
        self, images: UInt8[Tensor, "n channels height width"], moves: Moves
    ) -> UInt8[Tensor, "n channels height width"]:
        """The moved images."""
        if self.padding:
            images = self._crop(images, moves.offsets.to(images.device))
        if self.flip:
            mirrored = moves.is_flipped.to(images.device).view(-1, 1, 1, 1)
            images = torch.where(mirrored, images.flip(3), images)
        return images

    def _crop(self, images: Tensor, offsets: Tensor) -> Tensor:
        n, _, height, width = images.shape
        padded = F.pad(images, (self.padding,) * 4)
        # a view of every possible crop, of which one an image is copied
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        return crops[torch.arange(n, device=images.device), :, offsets[:, 0], offsets[:, 1]]
