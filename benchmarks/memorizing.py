"""Why plain losses memorize more here than in the paper, and why Curriculum learns so little.

Each run changes one thing at a time: the number of images, the learning rate, the network, or how
Curriculum reads its base loss and its threshold. The noise and the images are those of the tables
in ``results/``, with seed 0. Nothing is bounded.

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
from noisebound.experiments.protocol.columns import COLUMNS
from noisebound.experiments.protocol.plan import Plan
from noisebound.experiments.protocol.presets import CPU
from noisebound.experiments.protocol.sources import DataSources, noisy_splits
from noisebound.losses.curriculum import choose_by_curriculum
from noisebound.models import ModelName, create_model

RATE, BATCH, EPOCHS = 0.4, 300, 30
Criterion = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Setting:
    """One training. Its fields but the first two are those of the preset ``cpu``."""

    column: str
    loss: str
    images: int | None = 10_000
    learning_rate: float = 1e-3
    model: ModelName = "small_mlp"


def hinge(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``max(0, 1 - (z_y - max_k z_k))`` over the other classes k, of each example."""
    own = logits.gather(1, labels[:, None])
    others = logits.scatter(1, labels[:, None], -torch.inf).amax(1)
    return (1 - own.squeeze(1) + others).clamp(min=0)


def curriculum(selects_by: Criterion, trains_on: Criterion, counts_mistakes: bool) -> Criterion:
    """Return Curriculum with another base loss or another threshold."""

    def criterion(logits: Tensor, labels: Tensor) -> Tensor:
        mistakes = (logits.argmax(1) != labels).sum()
        kept = 1 - RATE
        size = torch.tensor(float(len(labels)))
        threshold = kept**2 * size + kept * mistakes if counts_mistakes else kept * size
        admitted = choose_by_curriculum(selects_by(logits, labels).detach(), threshold)
        return (trains_on(logits, labels) * admitted).sum() / admitted.sum().clamp(min=1)

    return criterion


def surprisal(logits: Tensor, labels: Tensor) -> Tensor:
    """Return cross-entropy of each example."""
    return F.cross_entropy(logits, labels, reduction="none")


def mean_absolute_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``1 - q_y`` of each example, which never exceeds one."""
    return -torch.expm1(-surprisal(logits, labels))


CURRICULA = {
    "curriculum, C = (1-ε) n": curriculum(surprisal, surprisal, counts_mistakes=False),
    "curriculum, by hinge": curriculum(hinge, surprisal, counts_mistakes=True),
    "curriculum, on hinge": curriculum(hinge, hinge, counts_mistakes=True),
    "curriculum, by 1 - q_y": curriculum(mean_absolute_error, surprisal, counts_mistakes=True),
}


def settings() -> Iterator[Setting]:
    """Return what is compared, the cheapest runs first."""
    first = Setting("emnist-0.4", "curriculum")
    yield first
    for name in CURRICULA:
        yield replace(first, loss=name)
    yield replace(first, learning_rate=1e-4)
    plain = [Setting("mnist-0.4", name) for name in ("gce", "mse", "spherical", "cep")]
    for setting in plain:
        yield setting
        yield replace(setting, learning_rate=1e-4)
    yield replace(plain[0], model="strided_cnn")
    for setting in plain:
        yield replace(setting, images=None, learning_rate=1e-4)
    yield replace(plain[0], images=None)
    yield replace(first, images=None)


def data_of(setting: Setting, sources: DataSources) -> Splits:
    """Return the images and the noisy labels of a column, with seed 0."""
    (run,) = Plan(CPU, (0,), sources).method_runs(COLUMNS[setting.column], "ce")
    return noisy_splits(run.model_copy(update={"train_examples": setting.images}), sources)


def train(setting: Setting, data: Dataset) -> nn.Module:
    """Return a network trained for so many epochs."""
    torch.manual_seed(0)
    inputs = data.dense_inputs.float().div(255).sub(0.5)
    model = create_model(setting.model, inputs.shape[1:], data.num_classes)
    facts = {"noise_rate": RATE, "num_classes": data.num_classes}
    criterion = CURRICULA.get(setting.loss) or nb.create_loss(setting.loss, **facts)
    optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            criterion(model(inputs[chosen]), data.labels[chosen]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, data: Dataset) -> Tensor:
    """Return the predicted class of each example."""
    inputs = data.dense_inputs.float().div(255).sub(0.5)
    return torch.cat([model(chunk).argmax(1) for chunk in inputs.split(2000)])


def row_of(setting: Setting, sources: DataSources) -> str:
    """Train, and return a row of the table."""
    start = time.process_time()
    splits = data_of(setting, sources)
    model = train(setting, splits.train)
    accuracy = (predict(model, splits.test) == splits.test.labels).double().mean()
    is_wrong = splits.train.labels != splits.train.true_labels
    memorized = (predict(model, splits.train) == splits.train.labels)[is_wrong].double().mean()
    cells = (
        setting.column,
        setting.loss,
        f"{setting.images or len(splits.train):,}",
        f"{setting.learning_rate:g}",
        setting.model,
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
    print("| column | loss | images | rate | network | test accuracy | memorized | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for setting in settings():
        print(row_of(setting, sources), flush=True)


if __name__ == "__main__":
    main()
