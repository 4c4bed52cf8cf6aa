"""Time the estimation of the noise, relative to the training that follows it.

The data are images of FashionMNIST's shape in ten classes, clean or 40% noisy; training takes 50
epochs. Every round times both; a ratio compares medians over the rounds.

    python benchmarks/estimating.py
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch

import noisebound as nb
from noisebound.data import Dataset
from noisebound.estimation import GivenRate
from noisebound.models import create_model
from noisebound.search import estimate_label_noise
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.loop import Training
from noisebound.training.objective import make_objective
from noisebound.training.session import Session
from noisebound.training.state import initial_state

SHAPE, CLASSES, EXAMPLES = (1, 28, 28), 10, 10_000


def some_data(noise_rate: float) -> TrainingData:
    """Return ten noisy patterns that take a few epochs to learn, and a few more to memorize."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(EXAMPLES) % CLASSES
    patterns = 40 * torch.randn(CLASSES, *SHAPE, generator=generator)
    gray = 128 + 60 * torch.randn(EXAMPLES, *SHAPE, generator=generator)
    images = (patterns[labels] + gray).clamp(0, 255).to(torch.uint8)
    noisy = nb.corrupt(labels, "symmetric", noise_rate, CLASSES, generator=generator)
    train = Dataset(images, noisy.labels, tuple("0123456789"))
    return TrainingData.unsplit(train)


def estimate(data: TrainingData, config: TrainingConfig) -> None:
    """Train the two networks that estimate the noise, each on one half."""
    session = Session(OneDevice("cpu"), show=False)
    estimate_label_noise(data.train, config, session=session)


def train(data: TrainingData, config: TrainingConfig) -> None:
    """Train for all epochs, without evaluation after each."""
    given = config.model_copy(update={"noise_rate": 0.4, "measure_every": config.epochs})
    devices = OneDevice("cpu")
    objective = make_objective(given, CLASSES, EXAMPLES, GivenRate(0.4, CLASSES))
    network = create_model(config.model, SHAPE, CLASSES)
    state = initial_state(network, objective, given, EXAMPLES, devices)
    for _ in Training(state, objective, data, given, devices).epochs():
        pass


def seconds(work: Callable[[TrainingData, TrainingConfig], None], *arguments: object) -> float:
    """Return how long the work takes."""
    start = time.perf_counter()
    work(*arguments)  # type: ignore[arg-type]
    return time.perf_counter() - start


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args()
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, "
        f"{options.rounds} rounds of {options.epochs} epochs"
    )
    for model, noise_rate in (("small_mlp", 0.0), ("small_mlp", 0.4), ("mlp", 0.0), ("mlp", 0.4)):
        data = some_data(noise_rate)
        config = TrainingConfig(
            loss="fce+b", model=model, epochs=options.epochs, validation_share=0
        )
        times = [
            (seconds(estimate, data, config), seconds(train, data, config))
            for _ in range(options.rounds)
        ]
        estimation, training = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = f"estimation / training {estimation / training:.3f} (goal: at most 0.5)"
        print(f"{model:10} noise rate {noise_rate:g}: {ratio}")


if __name__ == "__main__":
    main()
