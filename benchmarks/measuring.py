"""What measuring the noise costs, against the training that it serves.

Images of FashionMNIST's shape in ten classes, clean or 40 % noisy, 50 epochs. Every round
does both; a ratio is one of medians over the rounds. Measuring ends early where held-out losses
rise; without noise they fall to the end, and it costs the most.

    python benchmarks/measuring.py
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
from lightning_fabric import Fabric

import noisebound as nb
from noisebound.data import Dataset, Normalization
from noisebound.models import create_model
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import CrossFit
from noisebound.training.initial_state import initial_state
from noisebound.training.loop import Training, TrainingData
from noisebound.training.objective import make_objective

SHAPE, CLASSES, EXAMPLES = (1, 28, 28), 10, 10_000


def some_data(noise_rate: float) -> TrainingData:
    """Ten patterns under much gray: learnt in some epochs, and the noise in some more."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(EXAMPLES) % CLASSES
    patterns = 40 * torch.randn(CLASSES, *SHAPE, generator=generator)
    gray = 128 + 60 * torch.randn(EXAMPLES, *SHAPE, generator=generator)
    images = (patterns[labels] + gray).clamp(0, 255).to(torch.uint8)
    noisy = nb.corrupt(labels, "symmetric", noise_rate, CLASSES, generator=generator)
    train = Dataset(images, noisy.labels, tuple("0123456789"))
    return TrainingData(train, None, None, Normalization.of(images))


def measuring(data: TrainingData, config: TrainingConfig) -> None:
    """Both halves."""
    network = create_model(config.model, SHAPE, CLASSES)
    CrossFit(data, config, network, Fabric(accelerator="cpu", devices=1), show=False).held_out()


def training(data: TrainingData, config: TrainingConfig) -> None:
    """All epochs, without measurements after them."""
    told = config.model_copy(update={"noise_rate": 0.4, "measure_every": config.epochs})
    fabric = Fabric(accelerator="cpu", devices=1)
    objective = make_objective(told, CLASSES, EXAMPLES)
    network = create_model(config.model, SHAPE, CLASSES)
    state = initial_state(network, objective, told, EXAMPLES, fabric)
    for _ in Training(state, objective, data, told, fabric).epochs():
        pass


def seconds(work: Callable[[TrainingData, TrainingConfig], None], *arguments: object) -> float:
    """How long it takes."""
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
        config = TrainingConfig(model=model, epochs=options.epochs)
        times = [
            (seconds(measuring, data, config), seconds(training, data, config))
            for _ in range(options.rounds)
        ]
        measured, trained = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = f"measuring / training {measured / trained:.3f} (aim: at most 0.5)"
        print(f"{model:10} noise rate {noise_rate:g}: {ratio}")


if __name__ == "__main__":
    main()
