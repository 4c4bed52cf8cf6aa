"""Train a small network on scikit-learn's digits with 60 % wrong labels, plain and bounded.

Run it with ``make demo``. The test labels are clean, and are looked at once, at the end.
"""

import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import noisebound as nb

NOISE_RATE, NUM_CLASSES, EPOCHS, BATCH, WIDTH = 0.6, 10, 200, 300, 128
NAMES = ("ce", "fce", "gce", "sce", "cep")


def with_symmetric_noise(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Each label changes to another class with probability ``NOISE_RATE``."""
    shift = torch.randint(1, NUM_CLASSES, labels.shape, generator=generator)
    changes = torch.rand(labels.shape, generator=generator) < NOISE_RATE
    return torch.where(changes, (labels + shift) % NUM_CLASSES, labels)


def train(criterion: nn.Module, images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    """An ordinary loop: the criterion is all that differs between plain and bounded."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Linear(64, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, NUM_CLASSES),
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            criterion(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return model


def main() -> None:
    """Print the clean test accuracy of each loss, without and with its noise-bound."""
    pixels, digits = load_digits(return_X_y=True)
    split = train_test_split(pixels / 16, digits, test_size=0.3, random_state=0, stratify=digits)
    images, test_images = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    labels, test_labels = (torch.tensor(part) for part in split[2:])
    noisy = with_symmetric_noise(labels, torch.Generator().manual_seed(0))
    wrong = (noisy != labels).float().mean()
    print(f"digits: {len(images)} training images, {wrong:.1%} of their labels wrong")
    print(f"{'loss':<6}{'bound':>8}{'plain':>9}{'bounded':>9}{'gain':>7}   clean test accuracy, %")
    for name in NAMES:
        started = time.perf_counter()
        accuracies, bound = [], float("nan")
        for suffix in ("", "+b"):
            criterion = nb.create_loss(
                name + suffix, noise_rate=NOISE_RATE, num_classes=NUM_CLASSES
            )
            bound = getattr(criterion, "bound", bound)
            model = train(criterion, images, noisy, seed=0)
            hits = model(test_images).argmax(1) == test_labels
            accuracies.append(100 * hits.float().mean().item())
        plain, bounded = accuracies
        seconds = time.perf_counter() - started
        print(
            f"{name.upper():<6}{bound:>8.3f}{plain:>9.1f}{bounded:>9.1f}{bounded - plain:>+7.1f}"
            f"   ({seconds:.0f} s)"
        )


if __name__ == "__main__":
    main()
