"""Planted data: sets that are made up, and on which estimates of noise have gone wrong."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from noisebound.data import Dataset

TEST_EXAMPLES = 3_000


def spheres(seed: int) -> Dataset:
    """Return 1,000 training examples in ten dimensions, of class 1 outside a sphere.

    A network needs many examples to learn this, and its mistakes pass for noise.
    """
    random = np.random.default_rng(seed)
    points = random.standard_normal((1_000 + TEST_EXAMPLES, 10))
    radius = np.sqrt((points**2).sum(1))
    return _dataset(points, radius > np.median(radius), 2)


def wide(seed: int) -> Dataset:
    """Return 1,000 training examples of ten classes with 500 features, 30 of which tell."""
    from sklearn.datasets import make_classification

    features, labels = make_classification(
        1_000 + TEST_EXAMPLES,
        500,
        n_informative=30,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=seed,
    )
    return _dataset(features, labels, 10)


def words(seed: int) -> Dataset:
    """Return 1,000 training examples of four topics, each 30 words out of 2,000."""
    random = np.random.default_rng(seed)
    vocabulary, topics = 2_000, 4
    usual = random.dirichlet(np.full(vocabulary, 0.1))
    shares = [
        0.8 * usual + 0.2 * random.dirichlet(np.full(vocabulary, 0.05)) for _ in range(topics)
    ]
    labels = random.integers(topics, size=1_000 + TEST_EXAMPLES)
    counts = np.stack([random.multinomial(30, shares[label]) for label in labels])
    return _dataset(np.sqrt(counts), labels, topics)


def shapes(seed: int) -> Dataset:
    """Return 1,500 training images, 16×16, of a disk, a ring, a square or a cross in dim light."""
    random = np.random.default_rng(seed)
    count, side = 1_500 + TEST_EXAMPLES, 16
    labels = random.integers(4, size=count)
    rows, columns = np.mgrid[:side, :side].astype(float)
    center = random.uniform(5, side - 6, size=(2, count, 1, 1))
    size = random.uniform(2.5, 5, size=(count, 1, 1))
    down, right = rows - center[0], columns - center[1]
    distance = np.hypot(down, right)
    widest = np.maximum(abs(down), abs(right))
    narrowest = np.minimum(abs(down), abs(right))
    drawn = np.stack(
        [
            distance <= size,
            abs(distance - size) <= 1,
            widest <= size * math.sqrt(math.pi) / 2,
            (widest <= size) & (narrowest <= 1),
        ]
    )[labels, np.arange(count)]
    light = random.uniform(60, 160, size=(count, 1, 1))
    pixels = 50 + light * drawn + random.normal(0, 40, size=(count, side, side))
    images = torch.from_numpy(pixels.clip(0, 255).astype(np.uint8))[:, None]
    names = ("disk", "ring", "square", "cross")
    return Dataset(images, torch.from_numpy(labels.astype(np.int64)), names)


def _dataset(features: NDArray[np.float64], labels: NDArray[np.generic], classes: int) -> Dataset:
    return Dataset(
        torch.from_numpy(features.astype(np.float32)),
        torch.from_numpy(labels.astype(np.int64)),
        tuple(map(str, range(classes))),
    )


PLANTED: dict[str, Callable[[int], Dataset]] = {
    "spheres": spheres,
    "wide": wide,
    "words": words,
    "shapes": shapes,
}
"""The planted sets by name; each is made from a seed."""
