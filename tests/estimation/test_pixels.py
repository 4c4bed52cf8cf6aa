"""Suspect masks: by image and by region, one image at a time."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from anonymous_memory import anonymous_bytes

CLASSES, SIDE = 3, 16


def masks_and_probs(n=60, seed=0):
    """Masks of three stripes, predictions that are nearly sure, and ten masks with an error."""
    random = np.random.default_rng(seed)
    columns = np.arange(SIDE)[None, None]
    left, right = (random.integers(low, low + 4, (n, 1, 1)) for low in (3, 9))
    true = np.broadcast_to((columns >= left).astype(int) + (columns >= right), (n, SIDE, SIDE))
    logits = 3 * np.moveaxis(np.eye(CLASSES)[true], -1, 1)
    logits = logits + random.normal(size=logits.shape)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    noisy = true.copy()
    wrong = random.permutation(n)[:10]
    for place in wrong:
        noisy[place, 4:9, 0:3] = 2
    return probs.astype(np.float32), noisy, wrong


def test_images_and_regions_with_errors_come_first():
    probs, noisy, wrong = masks_and_probs()
    found = nb.find_pixel_suspects(probs, noisy)
    assert {*found.ranking[:10].tolist()} == {*wrong.tolist()}
    first = found.regions[0]
    assert first.image in wrong
    assert (first.rows, first.columns) == ((4, 9), (0, 3))
    assert (first.label, first.suggested, first.pixels) == (2, 0, 15)
    assert first.expected_wrong > 12
    assert [each.expected_wrong for each in found.regions] == sorted(
        (each.expected_wrong for each in found.regions), reverse=True
    )
    assert found.noise.interval[0] <= 150 / noisy.size <= found.noise.interval[1]


def test_an_image_again():
    probs, noisy, wrong = masks_and_probs()
    found = nb.find_pixel_suspects(probs, noisy)
    probability, suggested = found.of_image(int(wrong[0]))
    assert probability.mean().item() == pytest.approx(found.wrong_share[wrong[0]].item())
    assert (suggested[4:9, 0:3] == 0).all()


def test_as_for_examples():
    """With few pixels, all are in the sample, and the ranking is that of find_suspects."""
    probs, noisy, _ = masks_and_probs(30)
    found = nb.find_pixel_suspects(probs, noisy)
    flat = nb.find_suspects(np.moveaxis(probs, 1, -1).reshape(-1, CLASSES), noisy.flatten())
    ours = torch.stack([found.of_image(place)[0] for place in range(30)]).flatten()
    torch.testing.assert_close(ours, flat.probability, atol=0.02, rtol=0)


def test_by_a_matrix_where_the_labels_support_it():
    generator = torch.Generator().manual_seed(0)
    clean = (6 * torch.randn(40, SIDE, SIDE, CLASSES, generator=generator).double()).softmax(-1)
    true = torch.multinomial(clean.view(-1, CLASSES), 1, generator=generator).view(clean.shape[:3])
    noisy = nb.corrupt(true.flatten(), "pairwise", 0.4, CLASSES, generator=generator)
    masks = noisy.labels.view(true.shape)
    probs = (clean @ noisy.transition.T).movedim(-1, 1)
    found = nb.find_pixel_suspects(probs, masks)
    ours = torch.stack([found.of_image(place)[0] for place in range(40)])
    of_label = probs.gather(1, masks[:, None]).squeeze(1)
    is_wrong = (masks != true).flatten()
    by_label = roc_auc_score(is_wrong, -of_label.flatten())
    assert roc_auc_score(is_wrong, ours.flatten()) > by_label + 0.03


def test_ignored_pixels_and_images_of_any_size():
    probs, noisy, wrong = masks_and_probs()
    framed = [np.pad(mask, 2, constant_values=255) for mask in noisy]
    padded = [np.pad(each, ((0, 0), (2, 2), (2, 2))) for each in probs]
    framed[3], padded[3] = framed[3][:, 2:], padded[3][:, :, 2:]
    found = nb.find_pixel_suspects(padded, framed, ignore_index=255)
    assert {*found.ranking[:10].tolist()} == {*wrong.tolist()}
    probability, suggested = found.of_image(0)
    assert probability[0, 0] == 0
    assert suggested[0, 0] == 255
    framed[5] = np.full_like(framed[5], 255)
    again = nb.find_pixel_suspects(padded, framed, ignore_index=255)
    assert again.wrong_share[5] == 0


class Watched:
    """An array on disk that notes the memory of the process at every hundredth reading."""

    def __init__(self, path):
        self.array, self.noted, self.readings = np.load(path, mmap_mode="r"), [], 0

    def __len__(self):
        return len(self.array)

    def __getitem__(self, place):
        self.readings += 1
        if self.readings % 100 == 0:
            self.noted.append(anonymous_bytes())
        return self.array[place]


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    """Arrays on disk are read one by one: 40 MB more of them take no more memory."""
    peaks = []
    for n in (400, 400, 1200):  # the first run imports
        shape = (n, CLASSES, 64, 64)
        probs = np.lib.format.open_memmap(tmp_path / f"p{n}.npy", "w+", np.float32, shape)
        labels = np.lib.format.open_memmap(tmp_path / f"y{n}.npy", "w+", np.uint8, (n, 64, 64))
        labels[:] = np.arange(64) // 22
        probs[:] = np.moveaxis(np.eye(CLASSES)[np.arange(64) // 22] * 0.7 + 0.1, -1, 0)[:, None]
        labels[::7, 5] = 0
        watched = Watched(tmp_path / f"p{n}.npy")
        before = anonymous_bytes()
        nb.find_pixel_suspects(watched, np.load(tmp_path / f"y{n}.npy", mmap_mode="r"))
        peaks.append(max(watched.noted) - before)
    assert peaks[2] < peaks[1] + 2**22


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda p, y: (p, y[1:]), "one mask for each of 60 images, got 59"),
        (lambda p, y: (p, y[:, 1:]), r"image \d+ has \[3, 16, 16\] and a mask \[15, 16\]"),
        (lambda p, y: (p, y / 2), "mask whole numbers of the same height"),
        (lambda p, y: (p, y + 1), r"`labels` must lie in 0 … 2, or be -100"),
        (lambda p, y: (p, y * 0 - 100), "no pixel has a label"),
        (lambda p, y: (p / 2, y), "must sum to one"),
    ],
)
def test_masks_that_do_not_fit(changed, message):
    probs, noisy, _ = masks_and_probs()
    with pytest.raises(nb.NoiseboundError, match=message):
        nb.find_pixel_suspects(*changed(probs, noisy))


@pytest.mark.parametrize("function", [nb.find_suspects, nb.estimate_noise])
def test_images_are_for_another_function(function):
    probs, noisy, _ = masks_and_probs()
    with pytest.raises(nb.NoiseboundError, match="find_pixel_suspects"):
        function(probs, noisy)
