"""How good a model is on a data set: its predictions, its mean loss, its accuracy."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from noisebound.data import Batch, Dataset, Loader, Normalization
from noisebound.data.rows import takes_sparse
from noisebound.models.fine_tuned import FineTuned
from noisebound.training.data import TrainingData
from noisebound.training.devices import Devices, sum_over_ranks

_BATCH = 1000  # examples at once: large enough for full speed, small enough for any memory
_NUMBERS_AT_ONCE = 2**22  # of wide inputs fewer at once: a network holds 100 times as much of them


@dataclass(frozen=True)
class Evaluation:
    """Shares between 0 and 1; ``top5`` is None where there are no more than five classes.

    ``loss`` is None where it is infinite, which some losses are at a saturated wrong answer.
    """

    loss: float | None
    top1: float
    top5: float | None


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluates a network after an epoch, on all splits that there are.

    Args:
        data: the splits
        criterion: the loss
        devices: the ranks, of which each evaluates its share
    """

    data: TrainingData
    criterion: nn.Module
    devices: Devices

    def evaluate(self, model: nn.Module, averaged: nn.Module | None) -> dict[str, float | None]:
        """Return losses and accuracies of the last weights, and of the averaged ones."""
        found = self._evaluate("", model)
        return found if averaged is None else found | self._evaluate("averaged_", averaged)

    def _evaluate(self, prefix: str, model: nn.Module) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        others = (self.data.normalization, self.criterion, self.devices)
        if self.data.validation is not None:
            noisy = evaluate(model, self.data.validation, *others)
            found |= {"validation_loss": noisy.loss, "validation_top1": noisy.top1}
        if self.data.test is not None:
            clean = evaluate(model, self.data.test, *others)
            found |= {"test_top1": clean.top1, "test_top5": clean.top5}
        if self._mislabeled is not None:
            found["memorized"] = evaluate(model, self._mislabeled, *others).top1
        return {f"{prefix}{name}": value for name, value in found.items()}

    @cached_property
    def _mislabeled(self) -> Dataset | None:
        """The training examples whose label is known to be wrong."""
        train = self.data.train
        if train.true_labels is None:
            return None
        is_wrong = train.labels != train.true_labels
        return train.subset(is_wrong) if is_wrong.any() else None


@torch.no_grad()
def evaluate(
    model: nn.Module,
    data: Dataset,
    normalization: Normalization,
    criterion: nn.Module,
    devices: Devices,
) -> Evaluation:
    """Return means over all examples, of which each rank evaluates its share."""
    totals = torch.zeros(4, dtype=torch.float64, device=devices.device)
    dtype = _number_type(model)
    with _evaluating(model), _evaluating(criterion):
        for batch in _share_of_rank(model, data, normalization, devices):
            x, y = batch.x, batch.y
            logits = model(in_type(x, dtype))
            totals += torch.stack(
                [
                    criterion(logits, y).double() * len(y),
                    _hits(logits, y, 1),
                    _hits(logits, y, min(5, data.num_classes)),
                    torch.tensor(len(y), device=devices.device),
                ]
            )
    loss, top1, top5, count = sum_over_ranks(totals, devices).tolist()
    mean = loss / count if math.isfinite(loss) else None
    return Evaluation(mean, top1 / count, top5 / count if data.num_classes > 5 else None)


@torch.no_grad()
def predict_logits(
    model: nn.Module, data: Dataset, normalization: Normalization, devices: Devices
) -> Float[Tensor, "n classes"]:
    """Return the logits of every example, in order and on every rank."""
    dtype = _number_type(model)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    logits = torch.zeros(len(data), data.num_classes, device=devices.device, dtype=kept)
    with _evaluating(model):
        for batch in _share_of_rank(model, data, normalization, devices):
            logits[batch.indices.to(devices.device)] = model(in_type(batch.x, dtype)).to(kept)
    return sum_over_ranks(logits, devices).cpu()


def _number_type(model: nn.Module) -> torch.dtype:
    """Return the type of numbers that a model computes with; not all learners have weights."""
    return next((weight.dtype for weight in model.parameters()), torch.float32)


def examples_at_once(input_shape: Sequence[int]) -> int:
    """Return how many examples of this shape are evaluated at once."""
    return max(1, min(_BATCH, _NUMBERS_AT_ONCE // math.prod(input_shape)))


def in_type(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point inputs in the network's type; tokens stay integers."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _share_of_rank(
    model: nn.Module, data: Dataset, normalization: Normalization, devices: Devices
) -> Iterator[Batch] | tuple[Batch, ...]:
    is_divided = len(data) >= devices.world_size  # else the first rank does it all
    if not is_divided and not devices.is_global_zero:
        return ()
    network = _unwrapped(model)
    size = examples_at_once(data.input_shape)
    if isinstance(network, FineTuned):
        size = network.examples_at_once
    loader = Loader(
        replace(data, targets=None),  # judged by the labels, whatever is trained on
        size * devices.world_size,
        normalization=normalization,
        shuffle=False,
        rank=devices.global_rank if is_divided else 0,
        world_size=devices.world_size if is_divided else 1,
        device=devices.device,
        keep_sparse=takes_sparse(network),
    )
    return loader.epoch(0)


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


def _hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    return (logits.topk(k, dim=1).indices == labels[:, None]).sum()
