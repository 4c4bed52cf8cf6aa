"""Small data for training: four clouds, and digits, a third of their labels wrong."""

import torch

import noisebound as nb
from noisebound.data import Dataset, Splits, load

NOISE_RATE = 1 / 3
NAMES = ("a", "b", "c", "d")


def noisy_clouds(n: int = 120, features: int = 6, seed: int = 0) -> Splits:
    """Separable by a wide margin, so that what is learnt is the clouds or the noise."""
    generator = torch.Generator().manual_seed(seed)
    centers = 3 * torch.randn(4, features, generator=generator)

    def clouds(count: int) -> Dataset:
        labels = torch.arange(count) % 4
        inputs = centers[labels] + torch.randn(count, features, generator=generator)
        return Dataset(inputs, labels, NAMES)

    train, test = clouds(n), clouds(80)
    noisy = nb.corrupt(train.labels, "symmetric", NOISE_RATE, 4, generator=generator, exact=True)
    return Splits("clouds", train.with_labels(noisy.labels), test, source="made")


def noisy_images(n: int = 48) -> Splits:
    """Gray 8×8 images: a bright half, upper, lower, left or right."""
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> Dataset:
        labels = torch.arange(count) % 4
        pixels = torch.randint(0, 60, (count, 1, 8, 8), generator=generator, dtype=torch.uint8)
        for image, label in zip(pixels, labels.tolist(), strict=True):
            half = slice(0, 4) if label % 2 == 0 else slice(4, 8)
            image[0, half] += 150
            if label >= 2:
                image[0] = image[0].T.clone()
        return Dataset(pixels, labels, NAMES)

    train, test = images(n), images(16)
    noisy = nb.corrupt(train.labels, "symmetric", NOISE_RATE, 4, generator=generator, exact=True)
    return Splits("images", train.with_labels(noisy.labels), test, source="made")


def mistaken_digits() -> Splits:
    """Digits of which three in ten carry the label of the next one."""
    splits = load("digits")
    generator = torch.Generator().manual_seed(0)
    noisy = nb.corrupt(splits.train.labels, "pairwise", 0.3, 10, generator=generator)
    return Splits("noisy", splits.train.with_labels(noisy.labels), splits.test, source="made")
