"""Time one epoch of our loader and of ``torch.utils.data.DataLoader`` over the same tensors.

In every round, each loader gets one epoch, in random order; a ratio compares medians over the
rounds. Each returns the same: normalized float32 images, labels and indices, shuffled, in batches
of 300. DataLoader keeps its workers between epochs and normalizes whole batches.

    make bench
    NOISEBOUND_DATA=… python benchmarks/loader.py --rounds 7
"""

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from noisebound.data import CropAndFlip, DataError, Dataset, Loader, Normalization, load

BATCH = 300
SHAPES = {"fashion-mnist": (60_000, 1, 28, 28), "cifar10": (50_000, 3, 32, 32)}
Epoch = Callable[[int], Iterable[tuple[Tensor, ...]]]


def training_data(name: str) -> tuple[Dataset, str]:
    """Return the real images, or random ones of the same shape if the data set is not available."""
    try:
        return load(name).train, name
    except DataError:
        images = torch.randint(256, SHAPES[name], dtype=torch.uint8)
        labels = torch.randint(10, (len(images),))
        return Dataset(images, labels, tuple("0123456789")), f"{name} (random images of its shape)"


def torch_epochs(data: Dataset, normalization: Normalization, workers: int) -> Epoch:
    """Return the epochs of a DataLoader as it is commonly used with tensors."""
    examples = TensorDataset(data.inputs, data.labels, torch.arange(len(data)))
    loader = DataLoader(
        examples, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    return lambda _: ((normalization(x), y, indices) for x, y, indices in loader)


def seconds_for(epoch: Epoch, number: int) -> float:
    """Return the time of one epoch in which every batch is fetched."""
    started = time.perf_counter()
    for _ in epoch(number):
        pass
    return time.perf_counter() - started


def compare(name: str, rounds: int) -> None:
    """Time all loaders on one data set and print a table."""
    data, title = training_data(name)
    normalization = Normalization.of(data.inputs)
    augmenting = Loader(data, BATCH, normalization=normalization, augmentation=CropAndFlip())
    epochs: dict[str, Epoch] = {
        "noisebound": Loader(data, BATCH, normalization=normalization).epoch,
        "noisebound, crop and flip": augmenting.epoch,
        "DataLoader, 0 workers": torch_epochs(data, normalization, 0),
        "DataLoader, 2 workers": torch_epochs(data, normalization, 2),
    }
    seconds: dict[str, list[float]] = {loader: [] for loader in epochs}
    order = list(epochs)
    for number in range(rounds + 1):
        random.Random(number).shuffle(order)
        for loader in order:
            taken = seconds_for(epochs[loader], number)
            if number > 0:  # the first round warms up
                seconds[loader].append(taken)
    medians = {loader: statistics.median(times) for loader, times in seconds.items()}
    ours = medians["noisebound"]
    print(f"\n### {title}\n\n| loader | epoch, ms | times ours |\n|---|---|---|")
    for loader, median in medians.items():
        print(f"| {loader} | {1000 * median:.0f} | {median / ours:.1f} |")
    better = min(medians["DataLoader, 0 workers"], medians["DataLoader, 2 workers"])
    print(f"\nThe better DataLoader takes {better / ours:.1f} times as long as ours (goal: 5).")


def main() -> None:
    """Compare on both data sets."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    for name in SHAPES:
        compare(name, rounds)


if __name__ == "__main__":
    main()
