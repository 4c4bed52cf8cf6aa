"""The floor of masks whose noise depends on the distance to a border."""

import math

import numpy as np
import pytest
import torch

import noisebound as nb
from noisebound.border_bound import _distances

CE = nb.CrossEntropy()


def disks(n=6, side=24, seed=0):
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    centers, sizes = random.uniform(8, side - 8, (n, 2, 1, 1)), random.uniform(3, 8, (n, 1, 1))
    return (np.hypot(rows - centers[:, 0], columns - centers[:, 1]) < sizes).astype(np.uint8)


def slow_distances(mask, levels, ignored=-100):
    """Chebyshev's distance to the nearest labeled pixel of another class, minus one."""
    found = np.full(mask.shape, levels - 1)
    for i, j in np.ndindex(mask.shape):
        for a, b in np.ndindex(mask.shape):
            if mask[a, b] not in (mask[i, j], ignored):
                found[i, j] = min(found[i, j], max(abs(a - i), abs(b - j)) - 1)
    return found


def test_distances_are_those_to_the_nearest_other_class():
    mask = np.random.default_rng(0).integers(0, 20, (14, 17)) // 19 + disks(1, 17)[0][:14]
    found = _distances(torch.from_numpy(mask).long(), torch.ones(14, 17).bool(), 4)
    assert np.array_equal(found, slow_distances(mask, 4))


def test_pixels_without_a_label_are_no_border():
    mask = torch.zeros(5, 9, dtype=torch.int64)
    mask[:, 3:6] = 255
    far = nb.border_bound(CE, mask[None], [0.4, 0.0], 2, ignore_index=255)
    assert far == 0
    mask[:, 4] = 1
    near = nb.border_bound(CE, mask[None], [0.4, 0.0], 2, ignore_index=255)
    assert near == 0  # the classes do not touch
    mask[:, 3] = 0
    near = nb.border_bound(CE, mask[None], [0.4, 0.0], 2, ignore_index=255)
    assert near == pytest.approx(10 / 40 * nb.noise_bound(CE, 0.4, 2))  # 5 × (4 + 1 + 3) labeled


def test_one_rate_for_all_distances_is_the_noise_bound():
    bound = nb.border_bound(CE, disks(), [0.2, 0.2, 0.2], 2)
    assert bound == pytest.approx(nb.noise_bound(CE, 0.2, 2))


def test_it_is_below_the_bound_of_the_mean_rate():
    """Entropy is concave."""
    masks = disks()
    everywhere = torch.ones(24, 24).bool()
    distances = [_distances(torch.from_numpy(mask).long(), everywhere, 3) for mask in masks]
    shares = torch.stack(distances).flatten().bincount(minlength=3).numpy() / masks.size
    rates = [0.4, 0.2, 0.01]
    bound = nb.border_bound(CE, masks, rates, 2)
    floors = [nb.noise_bound(CE, rate, 2) for rate in rates]
    assert bound == pytest.approx(sum(shares * floors))
    assert bound < nb.noise_bound(CE, float(sum(shares * rates)), 2)


def test_matrices_count_by_the_classes_at_each_distance():
    mask = torch.zeros(1, 4, 8, dtype=torch.int64)
    mask[..., 6:] = 1
    transition = np.array([[1.0, 0.5], [0.0, 0.5]])  # only class 1 is noisy
    inside = nb.border_bound(CE, mask, [0.0, transition], 2)
    # Of the pixels of class 1, half are observed: 4 that are observed were 8.
    assert inside == pytest.approx(8 / 32 * math.log(2))
    beside = nb.border_bound(CE, mask, [torch.tensor(transition), 0.0], 2)
    assert beside == pytest.approx(8 / 32 * math.log(2))


def test_matrices_take_the_shares_of_the_true_classes():
    mask = torch.zeros(1, 10, 10, dtype=torch.int64)
    mask[:, 7:] = 1  # 30 % observed, so half are truly of class 1
    bound = nb.border_bound(CE, mask, [[[1.0, 0.4], [0.0, 0.6]]], 2)
    assert bound == pytest.approx(0.3365, abs=1e-4)


def test_pixels_without_a_label_spread_no_border():
    mask = torch.zeros(1, 9, dtype=torch.int64)
    mask[0, 3:6], mask[0, 6:] = 255, 1
    for ignored in (255, -100):
        given = mask.masked_fill(mask == 255, ignored)
        assert nb.border_bound(CE, given[None], [0.4, 0.4, 0.0], 2, ignore_index=ignored) == 0


def test_a_training_of_the_best_model_reaches_the_floor():
    """The mean loss of the true posteriors is the floor, but for the sampling of the noise."""
    masks, generator = torch.from_numpy(disks(60)).long(), torch.Generator().manual_seed(0)
    rates = torch.tensor([0.4, 0.1, 0.02])
    distance = torch.stack([_distances(m, torch.ones(24, 24).bool(), 3) for m in masks])
    flips = torch.rand(masks.shape, generator=generator) < rates[distance]
    noisy = torch.where(flips, 1 - masks, masks)
    posterior = torch.where(masks.bool(), 1 - rates[distance], rates[distance])
    logits = torch.stack([1 - posterior, posterior], 1).log()
    bound = nb.border_bound(CE, masks, rates.tolist(), 2)
    assert CE(logits, noisy).item() == pytest.approx(bound, abs=0.01)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((CE, disks()[0], [0.1], 2), r"shape \[height, width\] each"),
        ((CE, disks() + 1, [0.1], 2), r"classes 0 … 1 or -100; mask 0 does not"),
        ((CE, disks(), [], 2), "must not be empty"),
        ((CE, disks(), [np.eye(3)], 2), "each matrix of `noise` must be of 2 classes, got 3"),
        ((CE, disks(), [1.5], 2), r"must lie in \[0, 1\]"),
        ((nb.CrossEntropy(weight=[1.0, 2.0]), disks(), [0.1], 2), "without a class prior"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(nb.NoiseboundError, match=message):
        nb.border_bound(*given)
