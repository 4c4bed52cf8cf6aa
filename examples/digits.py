"""Train a small network on scikit-learn's digits with 60% wrong labels, plain and bounded.

Run ``python examples/digits.py``; it takes a minute on two cores. The loop is ordinary PyTorch,
with one line that averages the weights: at the bound, steps go uphill and downhill in turn, so the
last weights are noisy. The test labels are clean and are used only once, at the end.
"""

import argparse
import time

import torch
from torch import Tensor, nn

import noisebound as nb
from noisebound.data import Normalization, load

NOISE_RATE, NUM_CLASSES, BATCH, WIDTH, AVERAGE_EPOCHS = 0.6, 10, 300, 128, 5
NAMES = ("ce", "fce", "gce", "sce", "cep")


def train(
    criterion: nn.Module, images: Tensor, labels: Tensor, epochs: int, seed: int
) -> tuple[nn.Module, nn.Module]:
    """Return the model with its last weights, and with averaged ones, after an ordinary loop.

    Only the criterion differs between plain and bounded training.
    """
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
    averaged = nb.AveragedWeights(model, steps=AVERAGE_EPOCHS * len(images) / BATCH)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            criterion(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            averaged.update_parameters(model)
    return model, averaged


def main(epochs: int, seed: int) -> None:
    """Print the clean test accuracy of each loss, without and with its noise-bound."""
    digits = load("digits")
    normalize = Normalization.of(digits.train.inputs)
    images, test_images = (
        normalize(part.inputs).flatten(1) for part in (digits.train, digits.test)
    )
    noisy = nb.corrupt(
        digits.train.labels,
        "symmetric",
        NOISE_RATE,
        NUM_CLASSES,
        generator=torch.Generator().manual_seed(seed),
    )
    print(f"digits: {len(images)} training images, {noisy.noise_rate:.1%} of their labels wrong")
    print(f"clean accuracy{'last weights, %':>25}{'averaged weights, %':>25}")
    print(f"{'loss':<6}{'bound':>8}" + f"{'plain':>9}{'bounded':>9}{'gain':>7}" * 2)
    for name in NAMES:
        started = time.perf_counter()
        accuracies: list[list[float]] = []
        bound = float("nan")
        for suffix in ("", "+b"):
            criterion = nb.create_loss(
                name + suffix, noise_rate=NOISE_RATE, num_classes=NUM_CLASSES
            )
            bound = getattr(criterion, "bound", bound)
            models = train(criterion, images, noisy.labels, epochs, seed)
            hits = [model(test_images).argmax(1) == digits.test.labels for model in models]
            accuracies.append([100 * hit.float().mean().item() for hit in hits])
        columns = [
            f"{plain:>9.1f}{bounded:>9.1f}{bounded - plain:>+7.1f}"
            for plain, bounded in zip(*accuracies, strict=True)
        ]
        seconds = time.perf_counter() - started
        print(f"{name.upper():<6}{bound:>8.3f}{''.join(columns)}   ({seconds:.0f} s)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    main(arguments.epochs, arguments.seed)
