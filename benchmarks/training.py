"""Time our training loop against a bare PyTorch loop, and a bounded step against a plain one.

All use the same model (MLP 784-512-512-10), batches of 300 out of 10,000 images, and Adam. In every
round, each loop gets one epoch, in random order; a ratio compares medians over the rounds.

    make bench
"""

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable

import torch
from lightning_fabric import Fabric
from torch.nn import functional as F

from noisebound.data import Dataset, Loader
from noisebound.estimation import GivenRate
from noisebound.models import create_model
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.loop import Training
from noisebound.training.objective import make_objective
from noisebound.training.state import TrainingState

SHAPE, CLASSES, BATCH, EXAMPLES = (1, 28, 28), 10, 300, 10_000


def some_data() -> TrainingData:
    """Return random images of FashionMNIST's shape; their content does not affect the time."""
    images = torch.randint(256, (EXAMPLES, *SHAPE), dtype=torch.uint8)
    train = Dataset(images, torch.randint(CLASSES, (EXAMPLES,)), tuple("0123456789"))
    return TrainingData.unsplit(train)


def bare_loop(data: TrainingData) -> Callable[[int], object]:
    """Return the epoch of a loop written by hand."""
    model = create_model("mlp", SHAPE, CLASSES)
    optimizer = torch.optim.Adam(model.parameters())
    loader = Loader(data.train, BATCH, normalization=data.normalization)

    def epoch(number: int) -> None:
        for batch in loader.epoch(number):
            optimizer.zero_grad()
            F.cross_entropy(model(batch.x), batch.y).backward()
            optimizer.step()

    return epoch


def our_loop(data: TrainingData, loss: str) -> Callable[[int], object]:
    """Return the epoch of `Training`, without the evaluation after it."""
    config = TrainingConfig(loss=loss, noise_rate=0.4, batch_size=BATCH, average_epochs=0)
    model = create_model("mlp", SHAPE, CLASSES)
    objective = make_objective(config, CLASSES, EXAMPLES, GivenRate(0.4, CLASSES))
    optimizer = torch.optim.Adam(model.parameters())
    state = TrainingState(model, None, objective.criterion, optimizer)
    fabric = Fabric(accelerator="cpu", devices=1)
    return Training(state, objective, data, config, fabric)._train_epoch


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    data = some_data()
    loops = {
        "bare loop": bare_loop(data),
        "noisebound, CE": our_loop(data, "ce"),
        "noisebound, CE bounded": our_loop(data, "ce+b"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    order = list(loops)
    for number in range(rounds + 3):
        random.Random(number).shuffle(order)
        for name in order:
            started = time.perf_counter()
            loops[name](number)
            if number >= 3:  # the first rounds warm up
                seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    bare, plain, bounded = medians.values()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    print("\n| loop | epoch, ms |\n|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {1000 * median:.1f} |")
    print(f"\nThroughput against the bare loop: {bare / plain:.3f} (goal: at least 0.97).")
    print(f"A bounded step against a plain one: {bounded / plain:.3f} (goal: at most 1.01).")


if __name__ == "__main__":
    main()
