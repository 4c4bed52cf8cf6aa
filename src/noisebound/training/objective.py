"""The objective of a training step: the loss and its bound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from noisebound.bounds import noise_bound
from noisebound.catalog import create_loss
from noisebound.data import Loader
from noisebound.errors import InvalidValueError
from noisebound.estimation import BoundChoice, GivenRate, Noise
from noisebound.losses import Loss, RememberingLoss, Truncated
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices, sum_over_ranks


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss that a step minimizes, and its bound.

    If the criterion corrects noise, ``trusted`` marks the examples whose labels a person has
    checked. Plain cross-entropy replaces the criterion there.
    """

    criterion: nn.Module
    chosen: BoundChoice | None = None
    mixes: bool = False  # blends examples in pairs
    floor: float | None = None  # the least mean loss of an honest model, if it is known
    trusted: Bool[Tensor, " n"] | None = None

    @property
    def bound(self) -> float | None:
        return None if self.chosen is None else self.chosen.level

    def mean(
        self,
        logits: Float[Tensor, "batch classes"],
        labels: Num[Tensor, "batch ..."],
        weights: Float[Tensor, " batch"] | None,
        indices: Int64[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """Return the mean loss of some examples, each counted by its weight."""
        extra = (indices,) if isinstance(self.criterion, RememberingLoss) else ()
        if not isinstance(self.criterion, Loss):
            mean: Tensor = self.criterion(logits, labels, *extra)
            return mean
        if weights is None and self.trusted is None:
            return self.criterion.reduced("mean", logits, labels, *extra)
        losses, counted = self.criterion.weighted_losses(logits, labels, *extra)
        if self.trusted is not None:
            is_trusted = self.trusted[indices.cpu()].to(logits.device)
            plain = F.cross_entropy(logits, labels, reduction="none").to(losses)
            losses = torch.where(is_trusted, plain, losses)
            counted = None if counted is None else torch.where(is_trusted, 1.0, counted)
        weights = torch.ones_like(losses) if weights is None else weights.to(losses)
        total = (weights if counted is None else weights * counted).sum()
        return losses @ weights / total.clamp(min=torch.finfo(total.dtype).tiny)


ObjectiveFactory: TypeAlias = Callable[[TrainingConfig, int, int, Noise], Objective]
"""Makes the objective from a config, the numbers of classes and of examples, and the noise."""


def make_objective(
    config: TrainingConfig, num_classes: int, num_samples: int, noise: Noise
) -> Objective:
    """Return the objective of the method that the config names."""
    name = config.loss_name
    is_tried = noise.is_known or bool(noise.warnings)  # known, or an estimate has failed
    if config.needs_noise and not is_tried:
        raise InvalidValueError(
            f"{name} needs to know how noisy the labels are: give `noise_rate`, the "
            "probability that a label is wrong, or 'auto' to estimate it, or a `bound`"
        )
    criterion = make_criterion(config, num_classes, num_samples, noise)
    chosen = _choose_bound(config, criterion, noise) if name.is_bounded else None
    floor = chosen.level if chosen is not None else _floor(config, criterion, noise)
    return Objective(criterion, chosen, name.spec.mixes, floor)


def make_criterion(
    config: TrainingConfig, num_classes: int, num_samples: int, noise: Noise
) -> Loss:
    """Return the loss that the config names, for this noise, without its bound."""
    spec = config.loss_name.spec
    knows_structure = not isinstance(noise, GivenRate)
    if spec.from_transition is not None and knows_structure:
        return spec.from_transition(noise.transition)
    criterion = create_loss(
        "ce" if spec.mixes else spec.name,
        noise_rate=noise.assumed_rate,
        num_classes=num_classes,
        num_samples=num_samples,
    )
    assert isinstance(criterion, Loss)
    return criterion


def _floor(config: TrainingConfig, criterion: Loss, noise: Noise) -> float | None:
    """Return the derived floor of a training without a bound, to detect memorization."""
    if not isinstance(noise, GivenRate) or not noise.rate or not config.loss_name.spec.has_floor:
        return None
    return float(noise_bound(criterion, noise.rate, noise.num_classes))


def _choose_bound(config: TrainingConfig, criterion: Loss, noise: Noise) -> BoundChoice:
    if config.bound is not None:
        return BoundChoice(config.bound + config.bound_offset, "given", "the level that was given")
    chosen = noise.bound(criterion)
    return BoundChoice(chosen.level + config.bound_offset, chosen.origin, chosen.reason)


def mix_up(
    x: Float[Tensor, "batch ..."],
    y: Int64[Tensor, " batch"],
    num_classes: int,
    generator: Generator,
) -> tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch classes"]]:
    """Return ``λ x + (1-λ) x'`` and labels blended alike, ``λ`` uniform in ``[0, 1]``.

    There is one ``λ`` per batch, and the partners are the same examples in another order.
    """
    share = torch.rand((), generator=generator).item()
    partner = torch.randperm(len(y), generator=generator).to(x.device)
    targets = F.one_hot(y, num_classes).to(x.dtype)
    return torch.lerp(x[partner], x, share), torch.lerp(targets[partner], targets, share)


def share_memory(loss: nn.Module, visited: Tensor, devices: Devices) -> None:
    """Give every rank the memory of the examples that only other ranks visited.

    Each example is visited by one rank. So the sum over the ranks of their memories, with zeros
    elsewhere, is exactly the memory of a single process.
    """
    if devices.world_size == 1 or not isinstance(loss, RememberingLoss):
        return
    visited = visited.to(devices.device)
    for buffer in loss.buffers():
        noted = torch.zeros_like(buffer, dtype=torch.float32)
        noted[visited] = buffer[visited].to(noted.dtype)
        buffer.copy_(sum_over_ranks(noted, devices))


@torch.no_grad()
def prune(loss: nn.Module, model: nn.Module, loader: Loader, epoch: int) -> Tensor | None:
    """Let Truncated choose the examples to keep, if it is due; return those this rank looked at."""
    if not isinstance(loss, Truncated) or not loss.prunes_at(epoch + 1):
        return None
    model.eval()
    visited = []
    for batch in loader.epoch(epoch):
        loss.choose(model(batch.x), batch.y, batch.indices)
        visited.append(batch.indices)
    model.train()
    return torch.cat(visited)
