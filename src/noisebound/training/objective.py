"""A method of the paper by name: its loss, its bound, and what it does to a batch."""

import warnings
from dataclasses import dataclass

from torch import nn

from noisebound.bounds import noise_bound
from noisebound.catalog import LOSS_NAMES, create_loss
from noisebound.checks import NoiseRateWarning
from noisebound.losses import RememberingLoss
from noisebound.training.config import TrainingConfig

METHOD_NAMES = (*LOSS_NAMES, "mixup")
"""Every method; those in ``LOSS_NAMES`` may be followed by ``+b``."""


@dataclass(frozen=True, eq=False)
class Objective:
    """What a step minimizes.

    Args:
        criterion: the plain loss, ``(logits, labels)`` or with the examples' indices
        bound: the level that its mean shall not fall below, or None
        mixes: whether batches are mixed up
    """

    criterion: nn.Module
    bound: float | None
    mixes: bool

    @property
    def remembers(self) -> bool:
        """Whether the criterion has to know which examples these are."""
        return isinstance(self.criterion, RememberingLoss)


def make_objective(config: TrainingConfig, num_classes: int, num_samples: int) -> Objective:
    """The method that the config names, for so many classes and training examples."""
    name = config.loss.lower().removesuffix("+b")
    is_bounded = config.loss.lower().endswith("+b")
    if name not in METHOD_NAMES:
        raise ValueError(
            f"loss must be one of {', '.join(METHOD_NAMES)}, or such a name with '+b'; "
            f"got {config.loss!r}"
        )
    if name == "mixup" and is_bounded:
        raise ValueError("mixup has no noise-bound: its labels are blends; leave out '+b'")
    about_bounds = (config.bound, config.bound_classes, config.bound_offset or None)
    if not is_bounded and any(option is not None for option in about_bounds):
        raise ValueError(
            f"a bound is given, but {config.loss!r} is not bounded: ask for '{config.loss}+b', or "
            "leave out the bound"
        )
    criterion = create_loss(
        "ce" if name == "mixup" else name,
        noise_rate=config.noise_rate,
        num_classes=num_classes,
        num_samples=num_samples,
    )
    return Objective(
        criterion=criterion,
        bound=_bound(config, criterion, num_classes) if is_bounded else None,
        mixes=name == "mixup",
    )


def _bound(config: TrainingConfig, criterion: nn.Module, num_classes: int) -> float:
    if config.bound is not None:
        return config.bound + config.bound_offset
    if config.noise_rate is None:
        raise ValueError(
            f"{config.loss} needs to know how noisy the labels are: give the noise rate "
            "(--noise-rate), the probability that a label is wrong, or a bound (--bound)"
        )
    with warnings.catch_warnings():
        if config.bound_classes is not None:  # chosen on purpose, as for the paper's 0.6 with c = 2
            warnings.simplefilter("ignore", NoiseRateWarning)
        level = noise_bound(criterion, config.noise_rate, config.bound_classes or num_classes)
    return float(level) + config.bound_offset
