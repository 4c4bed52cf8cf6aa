"""Time an epoch of our training loop against a loop written by hand, in CPU time of one thread.

The bare loop has the same network, a fused Adam, and inputs that were normalized before it starts.
It does not average weights, record losses or look for divergence. Every epoch ends with predictions
for examples that the network is not trained on, as in a search. In every round each loop gets some
epochs, in random order; a ratio compares medians over the rounds.

    make bench
"""

import argparse
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.data import Dataset
from noisebound.estimation import GivenRate
from noisebound.models import create_model, linear, mlp
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.evaluation import EvaluationSet
from noisebound.training.loop import Training
from noisebound.training.objective import make_objective
from noisebound.training.state import initial_state

CLASSES = 10
BATCH = 256


@dataclass(frozen=True)
class Setting:
    """A training of one size.

    Args:
        name: how it is shown
        examples: the number of training examples; half as many are predicted after each epoch
        shape: of one example
        network: makes the network
        epochs: the number of epochs per round
    """

    name: str
    examples: int
    shape: tuple[int, ...]
    network: Callable[[Sequence[int], int], nn.Module]
    epochs: int

    def data(self) -> tuple[TrainingData, Dataset]:
        """Return random examples, whose content does not affect the time, and left-out ones."""
        generator = torch.Generator().manual_seed(0)
        count = self.examples * 3 // 2
        inputs = torch.randn(count, *self.shape, generator=generator)
        labels = torch.randint(CLASSES, (count,), generator=generator)
        whole = Dataset(inputs, labels, tuple("0123456789"))
        train = whole.subset(torch.arange(self.examples))
        return TrainingData.unsplit(train), whole.subset(torch.arange(self.examples, count))


def _small_mlp(shape: Sequence[int], classes: int) -> nn.Module:
    return mlp(shape, classes, hidden=(256, 256))


SETTINGS = (
    Setting("500×64, MLP 256-256", 500, (64,), _small_mlp, 40),
    Setting("2,500×64, MLP 256-256", 2_500, (64,), _small_mlp, 10),
    Setting("5,000×384, linear", 5_000, (384,), linear, 10),
    Setting("5,000×384, mlp_head", 5_000, (384,), lambda s, c: create_model("mlp_head", s, c), 4),
)


def bare_loop(setting: Setting) -> Callable[[], None]:
    """Return a round of a loop written by hand."""
    data, left_out = setting.data()
    inputs = data.normalization(data.train.dense_inputs)
    labels, others = data.train.labels, data.normalization(left_out.dense_inputs)
    model = setting.network(setting.shape, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    predicted: list[Tensor] = []

    def train() -> None:
        for _ in range(setting.epochs):
            model.train()
            for chosen in torch.randperm(len(labels)).split(BATCH):
                optimizer.zero_grad()
                logits = model(inputs.index_select(0, chosen))
                F.cross_entropy(logits, labels.index_select(0, chosen)).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                predicted[:] = [model(others)]

    return train


def our_loop(setting: Setting, loss: str) -> Callable[[], None]:
    """Return a round of `Training`, with predictions as trials make them."""
    data, left_out = setting.data()
    config = TrainingConfig(loss=loss, noise_rate=0.4, batch_size=BATCH, epochs=10**6)
    devices = OneDevice("cpu")
    objective = make_objective(config, CLASSES, setting.examples, GivenRate(0.4, CLASSES))
    model = setting.network(setting.shape, CLASSES)
    state = initial_state(model, objective, config, setting.examples, devices)
    others = EvaluationSet(left_out, data.normalization, devices)
    epochs = Training(state, objective, data, config, devices).epochs()

    def train() -> None:
        for _ in range(setting.epochs):
            next(epochs)
            others.logits(state.best_model)

    return train


def cpu_seconds(loops: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Return the median over the rounds, without the first two, which warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    order = list(loops)
    for number in range(rounds + 2):
        random.Random(number).shuffle(order)
        for name in order:
            started = time.process_time()
            loops[name]()
            if number >= 2:
                seconds[name].append(time.process_time() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, {platform.machine()}\n")
    print("| an epoch, ms | bare | CE | ratio | SCE bounded | ratio |\n|---|---|---|---|---|---|")
    for setting in SETTINGS:
        loops = {"bare": bare_loop(setting)}
        loops |= {loss: our_loop(setting, loss) for loss in ("ce", "sce+b")}
        medians = cpu_seconds(loops, rounds)
        bare, plain, bounded = (1000 * each / setting.epochs for each in medians.values())
        print(
            f"| {setting.name} | {bare:.2f} | {plain:.2f} | {plain / bare:.2f} | {bounded:.2f} | "
            f"{bounded / bare:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
