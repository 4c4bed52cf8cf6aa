"""The objective of a step: the loss and the bound of a method, by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64, Num
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from noisebound.bounds import noise_bound
from noisebound.catalog import create_loss
from noisebound.data import Loader
from noisebound.errors import InvalidValueError
from noisebound.estimation import BoundChoice, GivenRate, Noise
from noisebound.losses import Loss, RememberingLoss, Truncated
from noisebound.training.config import LABEL_USES, TrainingConfig
from noisebound.training.devices import Devices, sum_over_ranks


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss that a step minimizes, and its bound.

    Args:
        criterion: a loss of ``(logits, labels)``, with the examples' indices if it remembers them
        chosen: the bound with its origin, if there is one
        mixes: True to blend examples in pairs
        floor: the least mean loss of an honest model where it is known; the bound if there is one
    """

    criterion: nn.Module
    chosen: BoundChoice | None = None
    mixes: bool = False
    floor: float | None = None

    @property
    def bound(self) -> float | None:
        """The level that a step's mean loss is held at."""
        return None if self.chosen is None else self.chosen.level

    @property
    def remembers(self) -> bool:
        """True if the criterion has to know which examples these are."""
        return isinstance(self.criterion, RememberingLoss)

    def mean(
        self,
        logits: Float[Tensor, "batch classes"],
        labels: Num[Tensor, "batch ..."],
        weights: Float[Tensor, " batch"] | None,
        indices: Int64[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """Return the mean loss of some examples, each counted by its weight."""
        extra = (indices,) if self.remembers else ()
        if not isinstance(self.criterion, Loss):
            mean: Tensor = self.criterion(logits, labels, *extra)
            return mean
        if weights is None:
            return self.criterion.reduced("mean", logits, labels, *extra)
        losses, counted = self.criterion.weighted_losses(logits, labels, *extra)
        weights = weights.to(losses)
        total = (weights if counted is None else weights * counted).sum()
        return losses @ weights / total.clamp(min=torch.finfo(total.dtype).tiny)


ObjectiveFactory: TypeAlias = Callable[[TrainingConfig, int, int, Noise], Objective]
"""Makes the objective from a config, the numbers of classes and of examples, and the noise."""


def needs_estimate(config: TrainingConfig) -> bool:
    """True if the noise has to be estimated before the objective can be made."""
    name = config.loss_name
    is_given = config.bound is not None and not name.plain.needs_noise_rate
    return config.asks_for_estimate and name.needs_noise_rate and not is_given


def make_objective(
    config: TrainingConfig, num_classes: int, num_samples: int, noise: Noise
) -> Objective:
    """Return the objective of the method that the config names.

    Args:
        config: names the method
        num_classes: the number of classes
        num_samples: the number of training examples
        noise: given, estimated or unknown
    """
    check_method(config)
    name = config.loss_name
    if name.needs_noise_rate and not _is_provided(config, noise):
        raise InvalidValueError(
            f"{name} needs to know how noisy the labels are: give `noise_rate`, the "
            "probability that a label is wrong, or 'auto' to estimate it, or a `bound`"
        )
    criterion = make_criterion(config, num_classes, num_samples, noise)
    chosen = _choose_bound(config, criterion, noise) if name.is_bounded else None
    floor = chosen.level if chosen is not None else _floor(config, criterion, noise)
    return Objective(criterion, chosen, name.spec.mixes, floor)


def _is_provided(config: TrainingConfig, noise: Noise) -> bool:
    """True if there is a noise rate, or a bound and a loss that needs none."""
    if noise.is_known or noise.warnings:  # unknown, but not for want of trying
        return True
    return config.bound is not None and not config.loss_name.plain.needs_noise_rate


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


def check_method(config: TrainingConfig) -> None:
    """Refuse options that contradict each other, before time is spent on an estimate."""
    name = config.loss_name
    spec = name.spec
    if config.recipe is not None:
        _check_recipe_alone(config)
    if config.learner not in ("auto", "network"):
        _check_without_network(config)
    if spec.mixes and name.is_bounded:
        raise InvalidValueError("mixup has no noise-bound: its labels are blends; leave out '+b'")
    about_bounds = (config.bound, config.bound_classes, config.bound_offset or None)
    if not name.is_bounded and any(option is not None for option in about_bounds):
        raise InvalidValueError(
            f"a `bound` is given, but {str(name)!r} is not bounded: ask for '{name.bounded}', or "
            "leave it out"
        )
    if name.is_bounded and spec.floor is None and config.bound is None:
        raise InvalidValueError(
            f"{spec.name} has no noise-bound, because its loss depends on its memory or on the "
            "batch: give a `bound`, or leave out '+b'"
        )
    if config.transition is not None and config.given_rate is not None:
        raise InvalidValueError(
            "`noise_rate` and `transition`, which contains the rate, are both given: give one of "
            "them, not both"
        )
    uses_matrix = spec.from_transition is not None or (name.is_bounded and config.bound is None)
    if config.transition is not None and not uses_matrix:
        raise InvalidValueError(f"{name} has no use for a `transition` matrix: leave it out")
    if config.bound_classes is not None and (config.given_rate is None or config.bound is not None):
        raise InvalidValueError(
            "`bound_classes` enters the noise-bound of a given rate, and none is used here: give "
            "`noise_rate`, or leave it out"
        )


def _check_without_network(config: TrainingConfig) -> None:
    """Refuse options that only a network has a use for."""
    others = f"{config.learner!r} is named: leave it out, or choose the learner 'network'"
    if config.method == "loss":
        raise InvalidValueError(
            "a loss, a bound or the noise is given, which is for networks, but the learner "
            f"{others}"
        )
    if config.method not in ("auto", *LABEL_USES):
        raise InvalidValueError(
            f"the recipe {config.method!r} is for networks, but the learner {others}; other "
            f"learners take the recipes {', '.join(LABEL_USES)}"
        )
    if config.unfreeze:
        raise InvalidValueError(
            f"`unfreeze` trains an encoder with a network, but the learner {others}"
        )


def _check_recipe_alone(config: TrainingConfig) -> None:
    """Refuse options that a recipe decides by itself."""
    given = {
        "loss": config.loss is not None,
        "noise_rate": not config.asks_for_estimate,
        "bound": config.bound is not None,
        "bound_offset": config.bound_offset != 0,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidValueError(
                f"a `recipe` brings its own `{name}`: leave out one of the two options"
            )


def _floor(config: TrainingConfig, criterion: Loss, noise: Noise) -> float | None:
    """Return the derived floor of a training without a bound, to detect memorization."""
    if not isinstance(noise, GivenRate) or not noise.rate or config.loss_name.spec.floor is None:
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
