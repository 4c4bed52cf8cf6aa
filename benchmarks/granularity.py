"""Hold the mean loss of smaller groups at the bound: each example, each class, or ten batches.

The loss is ``Σ_g W_g |mean_g - B| / Σ_g W_g`` over groups ``g`` of a batch with weights ``W_g``.
One group of all examples gives the bounded loss. The bound is a statement about the average of
noisy labels and not about any single one, so smaller groups are worse. The noise is estimated once
per column and seed, and all rows share the estimate.

    python benchmarks/granularity.py --out granularity
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import noisebound as nb
from cells import argument_parser, key_of, measure, sources_of, table, write
from noisebound.data import Loader
from noisebound.models import create_model
from noisebound.paper.presets import CPU, Preset
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import DataSources, Plan, noisy_splits
from noisebound.runs import train_run
from noisebound.training.data import split_validation

GRANULARITIES = ("batch", "running", "class", "example")
_COLUMNS = ("fashion-mnist-0.4", "fashion-mnist-pairwise-0.4", "mnist-0.4")
_KEPT = 0.9  # the share of a running mean that each batch keeps: about ten batches enter it


class GranularBoundedLoss(nn.Module):
    """A bounded loss whose means are taken over groups.

    Args:
        loss: one of noisebound's losses
        bound: the level at which the mean loss of each group is held
        granularity: the groups: ``"batch"``, ``"example"`` or ``"class"``; with ``"running"`` a
            running mean over about ten batches decides whether the step goes up or down
    """

    def __init__(self, loss: nb.Loss, bound: float, granularity: str) -> None:
        super().__init__()
        self.loss, self.bound, self.granularity = loss, bound, granularity
        self.running_mean: Tensor | None = None

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the bounded mean."""
        losses, weights = self.loss.weighted_losses(logits, labels)
        weights = torch.ones_like(losses) if weights is None else weights
        mean = losses.sum() / weights.sum()
        match self.granularity:
            case "batch":
                return (mean - self.bound).abs()
            case "running":
                return (mean - self.bound) * (self._running(mean.detach()) - self.bound).sign()
            case "example":
                return (losses - weights * self.bound).abs().sum() / weights.sum()
            case _:
                classes, group = torch.unique(labels, return_inverse=True)
                zeros = losses.new_zeros(len(classes))
                sums, sizes = (zeros.index_add(0, group, each) for each in (losses, weights))
                return (sums - sizes * self.bound).abs().sum() / sizes.sum()

    def _running(self, mean: Tensor) -> Tensor:
        before = mean if self.running_mean is None else self.running_mean
        self.running_mean = _KEPT * before + (1 - _KEPT) * mean
        return self.running_mean


def measured(
    cell: Mapping[str, Any], preset: Preset, sources: DataSources, out: Path
) -> dict[str, float]:
    """Return the accuracy on clean test labels of the averaged weights."""
    loss_name, granularity = cell["method"].split(":")
    column = COLUMNS[cell["column"]]
    (run,) = Plan(preset, (cell["seed"],), sources).runs(column, f"{loss_name}+b")
    splits = noisy_splits(run, sources)
    config = run.training.model_copy(update={"noise_rate": "auto", "bound_classes": None})
    # A training by the library estimates the noise and sets the bound.
    folder = out / "runs" / key_of(cell | {"method": loss_name})
    estimated = train_run(splits, config, folder, resume=True, show=False)
    bound, transition = estimated.result.bound, estimated.noise.transition
    data, _ = split_validation(splits, config)
    train, test = data.train, data.test
    if bound is None or transition is None or test is None:
        raise RuntimeError(f"the noise of {cell['column']} could not be estimated")
    loss = nb.ForwardCrossEntropy(transition) if loss_name == "fce" else nb.CrossEntropy()
    criterion = GranularBoundedLoss(loss, bound, granularity)
    model = create_model(config.model, train.input_shape, train.num_classes, config.seed)
    loader = Loader(train, config.batch_size, normalization=data.normalization, seed=config.seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=float(config.learning_rate))
    steps = len(train) / config.batch_size
    averaged = nb.AveragedWeights(model, max(1.0, config.average_epochs * steps))
    for epoch in range(config.epochs):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate_at(epoch + 1)
        for batch in loader.epoch(epoch):
            optimizer.zero_grad()
            criterion(model(batch.x), batch.y).backward()
            optimizer.step()
            averaged.update_parameters(model)
    with torch.no_grad():
        predicted = averaged(data.normalization(test.dense_inputs)).argmax(1)
    return {"averaged": (predicted == test.labels).double().mean().item()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train CE and FCE with each granularity, and show the accuracies."""
    options = argument_parser(__doc__).parse_args(arguments)
    methods = options.methods or [f"{loss}:{g}" for loss in ("ce", "fce") for g in GRANULARITIES]
    columns, preset = options.columns or _COLUMNS, CPU
    if options.quick:
        columns, options.seeds = ["digits-0.4"], 1
        preset = CPU.override(["epochs=10", "learning_rate=0.003", "batch_size=60"])
        methods = [f"ce:{granularity}" for granularity in GRANULARITIES]
    cells = [
        {"column": column, "method": method, "seed": seed}
        for column in columns
        for seed in range(options.seeds)
        for method in methods
    ]
    work = partial(measured, preset=preset, sources=sources_of(options), out=options.out)
    frame = measure(cells, work, options.out)  # rows share the run that estimates the noise
    text = table(frame, "method", "column", "averaged", factor=100, form=".1f")
    write(frame, text, options.out, "granularity")


if __name__ == "__main__":
    main()
