"""How good a model is on a data set: its predictions, its mean loss, its accuracy."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from noisebound.data import Batch, Dataset, Loader, Normalization
from noisebound.data.rows import takes_sparse
from noisebound.training.data import TrainingData
from noisebound.training.devices import Devices, sum_over_ranks
from noisebound.training.fine_tuning import FineTuned

_BATCH = 1000  # examples at once: large enough for full speed, small enough for any memory
_NUMBERS_AT_ONCE = 2**22  # of wide inputs fewer at once: a network holds 100 times as much of them


_METRICS = {
    "validation": {"validation_loss": "loss", "validation_top1": "top1"},
    "test": {"test_top1": "top1", "test_top5": "top5"},
    "mislabeled": {"memorized": "top1"},
}
"""The metrics of each split, and the result of its evaluation that each of them is."""


class Evaluator:
    """Evaluates a network after an epoch, on all splits that there are."""

    def __init__(self, data: TrainingData, criterion: nn.Module, devices: Devices) -> None:
        self._criterion = criterion
        wrong, train = None, data.train
        if train.true_labels is not None:
            is_wrong = train.labels != train.true_labels
            wrong = train.subset(is_wrong) if is_wrong.any() else None
        splits = {"validation": data.validation, "test": data.test, "mislabeled": wrong}
        self._splits = {
            name: EvaluationSet(split, data.normalization, devices)
            for name, split in splits.items()
            if split is not None
        }

    def evaluate(self, model: nn.Module, averaged: nn.Module | None) -> dict[str, float | None]:
        """Return losses and accuracies of the last weights, and of the averaged ones."""
        networks = {"": model} if averaged is None else {"": model, "averaged_": averaged}
        metrics: dict[str, float | None] = {}
        for prefix, network in networks.items():
            for name, split in self._splits.items():
                found = split.evaluate(network, self._criterion)
                metrics |= {prefix + each: found[kind] for each, kind in _METRICS[name].items()}
        return metrics


class EvaluationSet:
    """A data set that is evaluated once or after every epoch; small inputs are normalized once."""

    def __init__(self, data: Dataset, normalization: Normalization, devices: Devices) -> None:
        # Evaluation is on the labels, even if training has other targets.
        self._data = data if data.targets is None else replace(data, targets=None)
        self._normalization, self._devices = normalization, devices
        self._loaders: dict[tuple[int, bool], Loader] = {}

    @torch.no_grad()
    def evaluate(self, model: nn.Module, criterion: nn.Module) -> dict[str, float | None]:
        """Return the mean loss, and the shares of examples with the label first or in the top 5.

        The loss is None if it is infinite, which some losses are at a saturated wrong answer; the
        top 5 of no more than five classes are None.
        """
        logits = self._logits(model)
        labels = self._data.labels.to(logits.device)
        with _evaluating(criterion):
            loss = criterion(logits, labels).item()
        top5 = None
        if logits.shape[1] > 5:
            top5 = (logits.topk(5).indices == labels[:, None]).sum().item() / len(labels)
        return {
            "loss": loss if math.isfinite(loss) else None,
            "top1": (logits.argmax(1) == labels).sum().item() / len(labels),
            "top5": top5,
        }

    @torch.no_grad()
    def logits(self, model: nn.Module) -> Float[Tensor, "n classes"]:
        """Return the logits of every example, in order and on every rank."""
        return self._logits(model).cpu()

    def _logits(self, model: nn.Module) -> Float[Tensor, "n classes"]:
        size, device = (len(self._data), self._data.num_classes), self._devices.device
        dtype = number_type(model)
        kept = torch.float64 if dtype == torch.float64 else torch.float32
        logits = torch.zeros(size, device=device, dtype=kept)
        with _evaluating(model):
            for batch in self._batches(model):
                logits[batch.indices.to(device)] = model(in_type(batch.x, dtype)).to(kept)
        return sum_over_ranks(logits, self._devices)

    def _batches(self, model: nn.Module) -> Iterator[Batch] | tuple[Batch, ...]:
        """Return the batches of this rank."""
        devices = self._devices
        is_divided = len(self._data) >= devices.world_size  # else the first rank does it all
        if not is_divided and not devices.is_global_zero:
            return ()
        network = _unwrapped(model)
        size = examples_at_once(self._data.input_shape)
        if isinstance(network, FineTuned):
            size = network.examples_at_once
        kind = size, takes_sparse(network)
        if kind not in self._loaders:
            self._loaders[kind] = Loader(
                self._data,
                size * devices.world_size,
                normalization=self._normalization,
                shuffle=False,
                rank=devices.global_rank if is_divided else 0,
                world_size=devices.world_size if is_divided else 1,
                device=devices.device,
                keep_sparse=kind[1],
            )
        return self._loaders[kind].epoch(0)


def number_type(model: nn.Module) -> torch.dtype:
    """Return the type of numbers that a model computes with; not all learners have weights."""
    return next((weight.dtype for weight in model.parameters()), torch.float32)


def examples_at_once(input_shape: Sequence[int]) -> int:
    """Return how many examples of this shape are evaluated at once."""
    return max(1, min(_BATCH, _NUMBERS_AT_ONCE // math.prod(input_shape)))


def in_type(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point inputs in the network's type; tokens stay integers."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the network itself, without the wrappers of Fabric and of averaged weights."""
    while isinstance(model, AveragedModel) or type(model).__module__.startswith("lightning"):
        inner = model.module
        assert isinstance(inner, nn.Module)
        model = inner
    return model


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
