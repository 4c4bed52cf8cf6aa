"""Why plain losses memorize more here than in the paper, and why Curriculum learns so little.

Each run changes one thing at a time: the learning rate, the epochs and the size of the inputs, the
number of images, the network, or how Curriculum reads its base loss and its threshold. The noise
and the images are those of the tables in ``results/``, with seed 0. Nothing is bounded.

    python benchmarks/memorizing.py --source emnist=FOLDER --out memorizing
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import noisebound as nb
from cells import Cell, argument_parser, measure, sources_of, write
from noisebound.data import Dataset
from noisebound.losses.without_floor import choose_by_curriculum, hinge
from noisebound.models import create_model
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import DataSources, Plan, noisy_splits

RATE, BATCH = 0.4, 300
STANDARDIZED, SMALL = "mean 0, deviation 1", "from -0.5 to 0.5"
Criterion = Callable[[Tensor, Tensor], Tensor]


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


def cells() -> Iterator[Cell]:
    """Return the trainings to compare, the cheapest first."""
    first = {
        "column": "emnist-0.4",
        "loss": "curriculum of CE",
        "network": "small_mlp",
        "images": 10_000,
        "rate": 1e-3,
        "epochs": 30,
        "pixels": SMALL,
    }
    for name in (*CURRICULA, "curriculum"):
        yield first | {"loss": name}
    yield first | {"rate": 1e-4}
    for name in ("gce", "mse", "cep", "spherical"):
        gentle = first | {"column": "mnist-0.4", "loss": name}
        as_in_the_tables = gentle | {"epochs": 50, "pixels": STANDARDIZED}
        yield as_in_the_tables
        yield as_in_the_tables | {"rate": 1e-4}
        yield gentle
        yield gentle | {"rate": 1e-4}
        yield as_in_the_tables | {"images": 60_000}
    convolutional = first | {"column": "mnist-0.4", "loss": "gce", "network": "strided_cnn"}
    convolutional |= {"epochs": 50, "pixels": STANDARDIZED}
    yield convolutional
    yield convolutional | {"rate": 1e-4}


def inputs_of(cell: Cell, data: Dataset) -> Tensor:
    """Return the images as numbers of the chosen size."""
    pixels = data.dense_inputs.float().div(255)
    is_standardized = cell["pixels"] == STANDARDIZED
    return (pixels - pixels.mean()) / pixels.std() if is_standardized else pixels - 0.5


def train(cell: Cell, data: Dataset) -> nn.Module:
    """Return a trained network."""
    torch.manual_seed(0)
    inputs = inputs_of(cell, data)
    model = create_model(cell["network"], inputs.shape[1:], data.num_classes)
    facts = {"noise_rate": RATE, "num_classes": data.num_classes}
    criterion = CURRICULA.get(cell["loss"]) or nb.create_loss(cell["loss"], **facts)
    optimizer = torch.optim.Adam(model.parameters(), lr=cell["rate"])
    for _ in range(cell["epochs"]):
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            criterion(model(inputs[chosen]), data.labels[chosen]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the predicted class of each example."""
    return torch.cat([model(chunk).argmax(1) for chunk in torch.split(inputs, 2000)])


def measured(cell: Cell, sources: DataSources) -> dict[str, float]:
    """Train, and return the accuracy and the share of wrong labels reproduced, in percent."""
    start = time.process_time()
    (run,) = Plan(CPU, (0,), sources).runs(COLUMNS[cell["column"]], "ce")
    splits = noisy_splits(run.model_copy(update={"train_examples": cell["images"]}), sources)
    model = train(cell, splits.train)
    predicted, on_test = (
        predict(model, inputs_of(cell, split)) for split in (splits.train, splits.test)
    )
    is_wrong = splits.train.labels != splits.train.true_labels
    memorized = (predicted == splits.train.labels)[is_wrong]
    return {
        "accuracy": round(100 * (on_test == splits.test.labels).double().mean().item(), 1),
        "memorized": round(100 * memorized.double().mean().item(), 1),
        "CPU s": round(time.process_time() - start),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the missing cells, and show the table."""
    options = argument_parser(__doc__).parse_args(arguments)
    chosen = list(cells())
    if options.quick:
        chosen = [
            cell | {"column": "digits-0.4", "images": 200, "epochs": 1} for cell in chosen[3:7]
        ]
    work = partial(measured, sources=sources_of(options))
    frame = measure(chosen, work, options.out, options.jobs)
    lines = [frame.columns, ["---"] * frame.width, *frame.rows()]
    text = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
    write(frame, text, options.out, "memorizing")


if __name__ == "__main__":
    main()
