import pytest
import torch
import torch.nn.functional as F

from noisebound.data import CropAndFlip
from published_files import some_images

IMAGES = torch.from_numpy(some_images(40, 3, 10, 12))


def one_by_one(images, moves, padding):
    """Move one image after the other, as the definition says."""
    moved = []
    for image, (down, across), flipped in zip(
        images, moves.offsets.tolist(), moves.is_flipped.tolist(), strict=True
    ):
        padded = F.pad(image, (padding,) * 4)
        crop = padded[:, down : down + image.shape[1], across : across + image.shape[2]]
        moved.append(crop.flip(2) if flipped else crop)
    return torch.stack(moved)


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_batch_is_moved_as_each_image_would_be(padding, flip):
    augmentation = CropAndFlip(padding, flip)
    moves = augmentation.draw(len(IMAGES), torch.Generator().manual_seed(0))
    moved = augmentation.apply(IMAGES, moves)
    assert torch.equal(moved, one_by_one(IMAGES, moves, padding))
    assert moved.dtype == torch.uint8


def test_moves_are_drawn_alike():
    moves = CropAndFlip(padding=2).draw(100_000, torch.Generator().manual_seed(0))
    counts = torch.stack([column.bincount(minlength=5) for column in moves.offsets.T])
    # within 4 standard deviations of a binomial
    assert ((counts - 20_000).abs() < 4 * (100_000 * 0.2 * 0.8) ** 0.5).all()
    assert abs(moves.is_flipped.sum() - 50_000) < 4 * (100_000 / 4) ** 0.5


def test_without_flip_nothing_is_mirrored():
    assert not CropAndFlip(flip=False).draw(100, torch.Generator()).is_flipped.any()
