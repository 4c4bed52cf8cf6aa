"""The state of a training: the network, its average, the loss's memory, the optimizer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from noisebound.averaging import AveragedWeights
from noisebound.models.regularized import FACTOR_RATE, InputFactors
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices
from noisebound.training.fine_tuning import FineTuned
from noisebound.training.objective import Objective

_FUSED = ("cpu", "cuda")
"""Devices where torch has Adam in one kernel, in place of a dozen for each weight."""


@dataclass(eq=False)
class TrainingState:
    """Where a training stands.

    Orders, augmentation and dropout follow from the seed and the epoch, so that no random generator
    is part of it.
    """

    model: nn.Module
    averaged: AveragedWeights | None
    criterion: nn.Module  # which may remember its examples
    optimizer: Optimizer
    epoch: int = 0  # finished

    @property
    def best_model(self) -> nn.Module:
        """The network with averaged weights, or with the last ones if none are averaged."""
        return self.model if self.averaged is None else self.averaged.module

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the state by its name."""
        parts = {"model": self.model, "criterion": self.criterion, "averaged": self.averaged}
        tensors = {
            f"{part}.{name}": value
            for part, module in parts.items()
            if module is not None
            for name, value in module.state_dict().items()
        }
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        return tensors

    def about(self) -> dict[str, Any]:
        """Return the rest of the state as JSON values."""
        return {"epoch": self.epoch, "param_groups": self.optimizer.state_dict()["param_groups"]}

    def restore(self, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
        """Restore the state from the results of :meth:`tensors` and :meth:`about`."""
        self.model.load_state_dict(_below(tensors, "model."))
        self.criterion.load_state_dict(_below(tensors, "criterion."))
        if self.averaged is not None:
            self.averaged.load_state_dict(_below(tensors, "averaged."))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _below(tensors, "optimizer.").items():
            index, _, key = name.partition(".")
            moments.setdefault(int(index), {})[key] = value
        self.optimizer.load_state_dict({"state": moments, "param_groups": about["param_groups"]})
        for weight, kept in self.optimizer.state.items():
            for name, value in kept.items():
                if value.shape == weight.shape:  # fused Adam reads both in the order of memory
                    kept[name] = torch.empty_like(weight, dtype=value.dtype).copy_(value)
        self.epoch = about["epoch"]


def initial_state(
    network: nn.Module,
    objective: Objective,
    config: TrainingConfig,
    num_examples: int,
    devices: Devices,
) -> TrainingState:
    """Return the state before the first step, on the device of this rank."""
    with devices.init_module():  # sets the type of numbers that the precision asks for
        network.to(devices.device, torch.get_default_dtype())
    averaged = None
    if config.average_epochs:
        steps = -(-num_examples // config.batch_size)
        epochs = config.average_epochs
        if isinstance(network, FineTuned):  # a few epochs: their average must not lag behind
            epochs = min(epochs, config.epochs / 10)
        averaged = AveragedWeights(network, max(1.0, epochs * steps))
    return TrainingState(
        network,
        averaged,
        objective.criterion.to(devices.device),
        torch.optim.Adam(
            _groups(network, config),
            weight_decay=config.weight_decay,
            fused=devices.device.type in _FUSED or None,
        ),
    )


def _groups(network: nn.Module, config: TrainingConfig) -> list[dict[str, Any]]:
    """Return the optimizer's groups; each has its share of the learning rate."""
    head, groups = network, []
    if isinstance(network, FineTuned):
        encoder = [weight for weight in network.encoder.parameters() if weight.requires_grad]
        head, groups = network.head, [{"params": encoder, "share": config.encoder_rate}]
    factors = [part.values for part in head.modules() if isinstance(part, InputFactors)]
    others = [weight for weight in head.parameters() if all(weight is not each for each in factors)]
    groups.append({"params": others, "share": 1.0})
    if factors:  # decay would draw them to zero, and not to one
        groups.append({"params": factors, "share": FACTOR_RATE, "weight_decay": 0.0})
    return groups


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def is_finite(network: nn.Module) -> bool:
    """True if every parameter is finite and no buffer holds NaN; a mask may hold infinity."""
    # A sum is finite only if all entries are, and it is cheaper to check.
    sums = [_sum(weight.detach()) for weight in network.parameters()]
    checks = [torch.stack(sums).isfinite().all()] if sums else []
    checks += [~each.isnan().any() for each in network.buffers() if each.is_floating_point()]
    return not checks or bool(torch.stack(checks).all())


def _sum(weight: Tensor) -> Tensor:
    # Half precision would overflow.
    return weight.sum(dtype=torch.promote_types(weight.dtype, torch.float32))
