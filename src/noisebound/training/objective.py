"""A method of the paper by name: its loss, its bound, and what it does to a batch."""

import warnings
from dataclasses import dataclass

from torch import nn

from noisebound.bounds import noise_bound
from noisebound.catalog import LOSS_NAMES, LossName, create_loss
from noisebound.checks import NoiseRateWarning
from noisebound.errors import InvalidValueError
from noisebound.granularity import GranularBoundedLoss, plain_loss
from noisebound.losses import (
    BackwardCrossEntropy,
    ForwardCrossEntropy,
    Loss,
    RememberingLoss,
)
from noisebound.training.config import TrainingConfig
from noisebound.training.noise import Bound, Noise

METHOD_NAMES = (*LOSS_NAMES, "mixup")
"""Every method; those in ``LOSS_NAMES`` may be followed by ``+b``."""

WITHOUT_NOISE_BOUND = ("truncated", "curriculum", "elr")

CORRECTIONS: dict[str, type[ForwardCrossEntropy] | type[BackwardCrossEntropy]] = {
    "fce": ForwardCrossEntropy,
    "backward": BackwardCrossEntropy,
}
"""Losses that take a transition matrix, and teach a network the *true* class."""


@dataclass(frozen=True, eq=False)
class Objective:
    """What a step minimizes.

    Args:
        criterion: the loss, ``(logits, labels)`` or with the examples' indices
        chosen: the level that its mean shall not fall below, or None
        mixes: whether batches are mixed up
        floor: what an honest model's mean cannot fall below, if known; the bound, if there is one
    """

    criterion: nn.Module
    chosen: Bound | None
    mixes: bool
    floor: float | None = None

    @property
    def bound(self) -> float | None:
        """The level alone."""
        return None if self.chosen is None else self.chosen.level

    @property
    def step_bound(self) -> float | None:
        """The level, where it is held against the mean of a whole step."""
        return None if isinstance(self.criterion, GranularBoundedLoss) else self.bound

    @property
    def remembers(self) -> bool:
        """Whether the criterion has to know which examples these are."""
        return isinstance(plain_loss(self.criterion), RememberingLoss)


def needs_measuring(config: TrainingConfig) -> bool:
    """Whether the noise has to be measured before the objective can be made."""
    is_asked = config.noise_rate == "auto" and config.transition is None
    is_given = config.bound is not None and not LossName.parse(config.base_loss).needs_noise_rate
    return is_asked and LossName.parse(config.loss).needs_noise_rate and not is_given


def make_objective(
    config: TrainingConfig,
    num_classes: int,
    num_samples: int,
    noise: Noise | None = None,
) -> Objective:
    """The method that the config names, for so many classes and training examples.

    Args:
        config: names the method
        num_classes: how many
        num_samples: training examples
        noise: what is known of it beyond the config's noise rate: its structure
    """
    check_loss(config)
    name, is_bounded = config.base_loss, config.is_bounded
    if noise is not None and name in CORRECTIONS:
        criterion: nn.Module = CORRECTIONS[name](noise.transition)
    else:
        criterion = create_loss(
            "ce" if name == "mixup" else name,
            noise_rate=_noise_rate(config, noise),
            num_classes=num_classes,
            num_samples=num_samples,
        )
    chosen = _bound(config, criterion, num_classes, noise) if is_bounded else None
    if chosen is not None and config.granularity != "batch":
        assert isinstance(criterion, Loss)
        criterion = GranularBoundedLoss(criterion, chosen.level, config.granularity)
    floor = chosen.level if chosen is not None else _floor(config, criterion, num_classes)
    return Objective(criterion, chosen, mixes=name == "mixup", floor=floor)


def check_loss(config: TrainingConfig) -> None:
    """Refuse a method that there is not, before time is spent on measuring its noise."""
    name, is_bounded = config.base_loss, config.is_bounded
    if name not in METHOD_NAMES:
        raise InvalidValueError(
            f"loss must be one of {', '.join(METHOD_NAMES)}, or such a name with '+b'; "
            f"got {config.loss!r}"
        )
    if name == "mixup" and is_bounded:
        raise InvalidValueError("mixup has no noise-bound: its labels are blends; leave out '+b'")
    about_bounds = (config.bound, config.bound_classes, config.bound_offset or None)
    if not is_bounded and any(option is not None for option in about_bounds):
        raise InvalidValueError(
            f"a bound is given, but {config.loss!r} is not bounded: ask for '{config.loss}+b', or "
            "leave out the bound"
        )
    if is_bounded and name in WITHOUT_NOISE_BOUND and config.bound is None:
        raise InvalidValueError(
            f"{name} has no noise-bound: it depends on its memory or on the batch; give a level "
            f"(--bound), or leave out '+b'"
        )
    if config.transition is not None and isinstance(config.noise_rate, float):
        raise InvalidValueError(
            "give the noise rate or the transition matrix, which has it, not both"
        )
    if config.transition is not None and not (
        name in CORRECTIONS or (is_bounded and config.bound is None)
    ):
        raise InvalidValueError(f"{config.loss} has no use for a transition matrix: leave it out")
    is_told = isinstance(config.noise_rate, float) and config.bound is None
    if config.bound_classes is not None and not is_told:
        raise InvalidValueError(
            "bound_classes enters the noise-bound of a noise rate, and none is given: give the "
            "noise rate (--noise-rate), or leave it out"
        )
    if not is_bounded and config.granularity != "batch":
        raise InvalidValueError(f"granularity is one of the bound, and {config.loss!r} has none")


def _noise_rate(config: TrainingConfig, noise: Noise | None) -> float | None:
    if noise is not None:
        return noise.noise_rate
    return None if config.noise_rate == "auto" else config.noise_rate


def _floor(config: TrainingConfig, criterion: nn.Module, num_classes: int) -> float | None:
    """For watching only: what the noise rate says, where it was told and the loss has a floor."""
    if not isinstance(config.noise_rate, float) or not config.noise_rate:
        return None
    if config.base_loss in (*WITHOUT_NOISE_BOUND, "mixup"):
        return None
    return noise_bound(criterion, config.noise_rate, num_classes)


def _bound(
    config: TrainingConfig, criterion: nn.Module, num_classes: int, noise: Noise | None
) -> Bound:
    if config.bound is not None:
        return Bound(config.bound + config.bound_offset, "given", "as was asked for")
    if noise is not None:
        assert isinstance(criterion, Loss)
        chosen = noise.bound(criterion)
        return Bound(chosen.level + config.bound_offset, chosen.origin, chosen.reason)
    if config.noise_rate is None or config.noise_rate == "auto":
        raise InvalidValueError(
            f"{config.loss} needs to know how noisy the labels are: give the noise rate "
            "(--noise-rate), the probability that a label is wrong, or auto to estimate it, or a "
            "bound (--bound)"
        )
    with warnings.catch_warnings():
        if config.bound_classes is not None:  # chosen on purpose, as for the paper's 0.6 with c = 2
            warnings.simplefilter("ignore", NoiseRateWarning)
        level = noise_bound(criterion, config.noise_rate, config.bound_classes or num_classes)
    words = f"the noise-bound of the rate {config.noise_rate:g} that was given"
    return Bound(float(level) + config.bound_offset, "given noise rate", words)
