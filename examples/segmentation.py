"""Segment digits although borders are drawn carelessly, with the floor of noise near borders.

In a checkout, run ``pip install -c constraints.txt '.[cli]'`` and then
``python examples/segmentation.py``. Scikit-learn's digits are enlarged to 24×24 pixels; the mask of
an image has the class of its digit where there is ink. Near borders, 40% of the labels are wrong,
elsewhere 5%. A small convolutional network trains twice: with a bound of zero, which has no effect,
and with the floor of these masks. ``StepBound`` applies it to whole steps of two micro-batches.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import noisebound as nb
from noisebound.pages.pixels import overlay_figure
from noisebound.pages.plots import save_figure

NEAR, INSIDE, CLASSES, SIDE, IMAGES = 0.4, 0.05, 3, 24, 8
DIGITS = (0, 1)  # classes 1 and 2; class 0 is the background


def make_masks() -> tuple[Tensor, Tensor]:
    """Return images and their true masks."""
    images, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, DIGITS)
    small = torch.tensor(images[chosen]).float().view(-1, 1, 8, 8) / 16
    large = F.interpolate(small, size=(SIDE, SIDE), mode="bicubic").clamp(0, 1)
    ink = (large > 0.4).squeeze(1)
    return large, ink * (torch.tensor(digits[chosen])[:, None, None] + 1)


def add_noise(masks: Tensor, seed: int) -> Tensor:
    """Return masks with wrong labels: many near borders, few elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    around = F.max_pool2d(masks[:, None].float(), 3, 1, 1)
    inner = -F.max_pool2d(-masks[:, None].float(), 3, 1, 1)
    is_near = (around != inner).squeeze(1)
    rate = torch.where(is_near, NEAR, INSIDE)
    is_wrong = torch.rand(masks.shape, generator=generator) < rate
    shift = torch.randint(1, CLASSES, masks.shape, generator=generator)
    return torch.where(is_wrong, (masks + shift) % CLASSES, masks)


def make_model() -> nn.Module:
    """Return a small network that keeps the resolution."""
    layers: list[nn.Module] = []
    for channels in (1, 48, 48, 48):
        layers += [nn.Conv2d(channels, 48, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(48, CLASSES, 1))


def main(epochs: int, picture: Path | None) -> None:
    """Print the accuracy on clean test masks, plain and bounded, and how noise is found."""
    images, truth = make_masks()
    noisy = add_noise(truth, 0)
    train, test = slice(0, IMAGES), slice(IMAGES, None)
    bound = nb.border_bound(nb.CrossEntropy(), truth[train], [NEAR, INSIDE], CLASSES)
    for name, level in {"plain": 0.0, "bounded": bound}.items():
        torch.manual_seed(0)
        model = make_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        step_bound = nb.StepBound(optimizer, level)
        averaged = nb.AveragedWeights(model, steps=20)
        for _ in range(epochs):
            for batch in torch.randperm(IMAGES).split(4):
                optimizer.zero_grad()
                for part in batch.split(2):
                    loss = nb.CrossEntropy()(model(images[part]), noisy[part])
                    step_bound.observe(loss, count=noisy[part].numel())
                    (loss / 2).backward()
                optimizer.step()
                averaged.update_parameters(model)
        with torch.no_grad():
            hits = averaged(images[test]).argmax(1) == truth[test]
            probs = averaged(images[train]).softmax(1)
        print(
            f"{name} at {level:.3f}: {step_bound.share_below:.0%} of the steps uphill, pixel "
            f"accuracy on clean test masks {hits.float().mean():.1%}"
        )
    found = nb.find_pixel_suspects(probs, noisy[train])
    is_wrong = noisy[train] != truth[train]
    first = torch.stack([found.of_image(place)[0] for place in range(IMAGES)]).flatten()
    top = first.topk(int(is_wrong.sum())).indices
    hits = is_wrong.flatten()[top].float().mean()
    print(f"wrong pixels: {is_wrong.float().mean():.1%}; estimated {found.noise.summary}")
    print(f"of as many most suspect pixels, {hits:.0%} are wrong")
    if picture is not None:
        save_figure(overlay_figure(found, images[train], most=6), picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--picture", type=Path, help="a .png file for the most suspect masks")
    main(**vars(parser.parse_args()))
