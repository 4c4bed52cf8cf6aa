"""Why plain losses memorize more here than in the paper, and why Curriculum learns so little.

Each run changes one thing at a time: the learning rate, the epochs and the size of the inputs, the
number of images, the network, or how Curriculum reads its base loss and its threshold. The noise
and the images are those of the tables in ``results/``, with seed 0. Nothing is bounded.

Run it with ``python benchmarks/memorizing.py --emnist FOLDER``; it writes a table in Markdown.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.losses.curriculum import choose_by_curriculum, hinge
from noisebound.models import ModelName, create_model
from noisebound.paper.plan import Plan
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import noisy_splits
from noisebound.paper.sources import DataSources

RATE, BATCH = 0.4, 300
Criterion = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Setting:
    """One training.

    Args:
        column: the data set and its noise, as in the tables
        loss: a name of the catalogue or of :data:`CURRICULA`
        images: the number of training images; None for all
        learning_rate: Adam's
        epochs: passes over the images
        standardized: True for pixels with mean 0 and standard deviation 1, as in the tables; False
            for pixels between -0.5 and 0.5, which are three times smaller
        model: the network
    """

    column: str
    loss: str
    images: int | None = 10_000
    learning_rate: float = 1e-3
    epochs: int = 30
    standardized: bool = False
    model: ModelName = "small_mlp"


def surprisal(logits: Tensor, labels: Tensor) -> Tensor:
    """Return cross-entropy of each example."""
    return F.cross_entropy(logits, labels, reduction="none")


def mean_absolute_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``1 - q_y`` of each example, which never exceeds one."""
    return -torch.expm1(-surprisal(logits, labels))


def margin_hinge(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the hinge of each example."""
    return hinge(logits, lambda v: v.gather(1, labels[:, None])).squeeze(1)


def curriculum(selects_by: Criterion, counts_mistakes: bool = True) -> Criterion:
    """Return CE of the examples that another base loss or another threshold admits."""

    def criterion(logits: Tensor, labels: Tensor) -> Tensor:
        mistakes = (logits.argmax(1) != labels).sum()
        kept = 1 - RATE
        size = torch.tensor(float(len(labels)))
        threshold = kept**2 * size + kept * mistakes if counts_mistakes else kept * size
        admitted = choose_by_curriculum(selects_by(logits, labels).detach(), threshold)
        return (surprisal(logits, labels) * admitted).sum() / admitted.sum().clamp(min=1)

    return criterion


CURRICULA: dict[str, Criterion] = {
    "curriculum of CE": nb.Curriculum(RATE, base="cross-entropy"),
    "curriculum of CE, C = (1-ε) n": curriculum(surprisal, counts_mistakes=False),
    "curriculum of CE, admitted by the hinge": curriculum(margin_hinge),
    "curriculum of CE, admitted by 1 - q_y": curriculum(mean_absolute_error),
}


def settings() -> Iterator[Setting]:
    """Return what is compared, the cheapest runs first."""
    first = Setting("emnist-0.4", "curriculum of CE")
    for name in (*CURRICULA, "curriculum"):
        yield replace(first, loss=name)
    yield replace(first, learning_rate=1e-4)
    for name in ("gce", "mse", "cep", "spherical"):
        gentle = Setting("mnist-0.4", name)
        as_in_the_tables = replace(gentle, epochs=50, standardized=True)
        yield as_in_the_tables
        yield replace(as_in_the_tables, learning_rate=1e-4)
        yield gentle
        yield replace(gentle, learning_rate=1e-4)
        yield replace(as_in_the_tables, images=None)
    convolutional = Setting("mnist-0.4", "gce", epochs=50, standardized=True, model="strided_cnn")
    yield convolutional
    yield replace(convolutional, learning_rate=1e-4)


def data_of(setting: Setting, sources: DataSources) -> Splits:
    """Return the images and the noisy labels of a column, with seed 0."""
    (run,) = Plan(CPU, (0,), sources).runs(COLUMNS[setting.column], "ce")
    return noisy_splits(run.model_copy(update={"train_examples": setting.images}), sources)


def inputs_of(setting: Setting, data: Dataset) -> Tensor:
    """Return the images as numbers of the chosen size."""
    pixels = data.dense_inputs.float().div(255)
    return (pixels - pixels.mean()) / pixels.std() if setting.standardized else pixels - 0.5


def train(setting: Setting, data: Dataset) -> nn.Module:
    """Return a trained network."""
    torch.manual_seed(0)
    inputs = inputs_of(setting, data)
    model = create_model(setting.model, inputs.shape[1:], data.num_classes)
    facts = {"noise_rate": RATE, "num_classes": data.num_classes}
    criterion = CURRICULA.get(setting.loss) or nb.create_loss(setting.loss, **facts)
    optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
    for _ in range(setting.epochs):
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            criterion(model(inputs[chosen]), data.labels[chosen]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the predicted class of each example."""
    return torch.cat([model(chunk).argmax(1) for chunk in torch.split(inputs, 2000)])


def row_of(setting: Setting, sources: DataSources) -> str:
    """Train, and return a row of the table."""
    start = time.process_time()
    splits = data_of(setting, sources)
    model = train(setting, splits.train)
    predicted, on_test = (
        predict(model, inputs_of(setting, split)) for split in (splits.train, splits.test)
    )
    accuracy = (on_test == splits.test.labels).double().mean()
    is_wrong = splits.train.labels != splits.train.true_labels
    memorized = (predicted == splits.train.labels)[is_wrong].double().mean()
    cells = (
        setting.column,
        setting.loss,
        setting.model,
        f"{len(splits.train):,}",
        f"{setting.learning_rate:g}",
        f"{setting.epochs}",
        "mean 0, deviation 1" if setting.standardized else "from -0.5 to 0.5",
        f"{100 * accuracy:.1f}",
        f"{100 * memorized:.1f}",
        f"{time.process_time() - start:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the table, one row as soon as its run is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emnist", type=Path, required=True, help="folder with EMNIST's files")
    sources = DataSources(paths={"emnist": parser.parse_args().emnist})
    titles = ("column", "loss", "network", "images", "rate", "epochs", "pixels", "accuracy")
    print(f"| {' | '.join((*titles, 'memorized', 'CPU s'))} |")
    print("|---" * (len(titles) + 2) + "|", flush=True)
    for setting in settings():
        print(row_of(setting, sources), flush=True)


if __name__ == "__main__":
    main()
