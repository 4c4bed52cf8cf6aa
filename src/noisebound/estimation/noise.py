"""The noise in a set of labels: given, unknown, or changed by class weights.

Each kind has a noise rate, a transition matrix, and a bound for each loss.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from noisebound.bounds import noise_bound, transition_bound
from noisebound.checks import NoiseRateWarning
from noisebound.errors import InvalidValueError
from noisebound.estimation.estimate import NoiseEstimate
from noisebound.estimation.predictions import Matrix, PerClass
from noisebound.estimation.transitions import rate_of, true_class_probabilities
from noisebound.losses import Loss
from noisebound.noise_models import symmetric_transition

BoundOrigin: TypeAlias = Literal[
    "given",
    "given noise rate",
    "given transition",
    "estimated noise rate",
    "estimated transition",
    "measured floor",
    "noise unknown",
]


class UnknownNoiseWarning(UserWarning):
    """The noise could not be estimated."""


@dataclass(frozen=True)
class BoundChoice:
    """A level for the mean loss, where it comes from, and why it was chosen, in words."""

    level: float
    origin: BoundOrigin
    reason: str


class Noise(ABC):
    """The noise in a set of labels."""

    kind: ClassVar[str]
    estimate: NoiseEstimate | None = None

    @property
    @abstractmethod
    def rate(self) -> float | None:
        """The probability that a label is wrong; None for unknown noise."""

    @property
    @abstractmethod
    def transition(self) -> Matrix:
        """``T[noisy, true]``; the identity for unknown noise."""

    @abstractmethod
    def bound(self, loss: Loss) -> BoundChoice:
        """Return the level below which the mean loss should not fall."""

    @property
    def of_labels(self) -> NoiseEstimate | None:
        """The estimate about the labels that are trained on, if there is one."""
        return self.estimate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of an estimated noise rate."""
        return None if self.rate is None or self.estimate is None else self.estimate.interval

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems with an estimate, one sentence each."""
        return () if self.estimate is None else self.estimate.diagnostics.warnings

    @property
    def unknown_because(self) -> str | None:
        """Why the noise could not be estimated; None if it is known or was not estimated."""
        return None if self.estimate is None else self.estimate.diagnostics.rejection

    @property
    def assumed_rate(self) -> float:
        """The rate that training assumes; zero for unknown noise."""
        return 0.0 if self.rate is None else self.rate

    @property
    def is_known(self) -> bool:
        return self.rate is not None

    def prior_given(self, label_shares: PerClass) -> PerClass:
        """Return the share of each true class, given the share of each label."""
        return true_class_probabilities(label_shares[None], self.transition)[0]


@dataclass(frozen=True, eq=False)
class UnknownNoise(Noise):
    """Noise that was not estimated, or could not be, with the reason and the rejected estimate."""

    kind = "unknown"
    num_classes: int
    reason: str | None = None
    estimate: NoiseEstimate | None = None

    @property
    def rate(self) -> None:
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        return super().warnings if self.reason is None else (*super().warnings, self.reason)

    @property
    def unknown_because(self) -> str | None:
        return self.reason

    @property
    def transition(self) -> Matrix:
        return torch.eye(self.num_classes, dtype=torch.float64)

    def bound(self, loss: Loss) -> BoundChoice:
        level = transition_bound(loss, self.transition)
        return BoundChoice(level, "noise unknown", f"as if there were no noise: {self.reason}")


@dataclass(frozen=True, eq=False)
class GivenRate(Noise):
    """A noise rate that the user gave, of noise that is assumed to be symmetric.

    ``bound_classes`` is c in the noise-bound, by default the number of classes.
    """

    kind = "given rate"
    noise_rate: float
    num_classes: int
    bound_classes: int | None = None

    @property
    def rate(self) -> float:
        return self.noise_rate

    @property
    def transition(self) -> Matrix:
        return symmetric_transition(self.rate, self.num_classes)

    def bound(self, loss: Loss) -> BoundChoice:
        # The paper combines a rate of 0.6 with two classes on purpose.
        with warnings.catch_warnings():
            if self.bound_classes is not None:
                warnings.simplefilter("ignore", NoiseRateWarning)
            level = float(noise_bound(loss, self.rate, self.bound_classes or self.num_classes))
        reason = f"the noise-bound of the rate {self.rate:g} that was given"
        return BoundChoice(level, "given noise rate", reason)


@dataclass(frozen=True, eq=False)
class GivenTransition(Noise):
    """A given matrix ``T[noisy, true]``, the share of each true class, and the bound's origin."""

    kind = "given transition"
    matrix: Matrix
    class_prior: PerClass
    origin: BoundOrigin = "given transition"
    reason: str = "the entropy of the transition matrix that was given"

    @property
    def transition(self) -> Matrix:
        return self.matrix

    @property
    def rate(self) -> float:
        return rate_of(self.matrix, self.class_prior)

    def bound(self, loss: Loss) -> BoundChoice:
        level = transition_bound(loss, self.matrix, self.class_prior)
        return BoundChoice(level, self.origin, self.reason)

    def prior_given(self, label_shares: PerClass) -> PerClass:
        return self.class_prior


def class_weighted(noise: Noise, weights: PerClass, label_shares: PerClass) -> Noise:
    """Return the noise among examples that are weighted by their label.

    A weight ``w_y`` is the same as drawing the examples with the label ``y`` ``w_y`` times as
    often. So ``T'[y, k] = w_y T[y, k] / W_k`` with ``W_k = Σ_y w_y T[y, k]``, the true class ``k``
    has the share ``π'_k ∝ π_k W_k``, and the floor is ``Σ_k π'_k H(T'[:, k])``.
    """
    if not noise.is_known:
        return noise
    if isinstance(noise, GivenRate) and noise.bound_classes is not None:
        raise InvalidValueError(
            "`bound_classes` needs classes of equal weight: leave it out, or `class_weight`"
        )
    weighted = weights[:, None] * noise.transition
    totals = weighted.sum(0)
    # The column of a true class whose labels all have weight 0 does not matter.
    transition = torch.where(totals > 0, weighted / totals, noise.transition)
    shares = noise.prior_given(label_shares) * totals
    is_estimated = noise.kind == "estimated"
    how = "estimated" if is_estimated else "given"
    return GivenTransition(
        transition,
        shares / shares.sum(),
        "estimated transition" if is_estimated else "given transition",
        f"the weighted mean of the classes' floors, by the {how} noise",
    )


def balanced_weights(counts: Tensor) -> PerClass:
    """Return weights that give each class the same total; their mean over the examples is one.

    Example:
        >>> balanced_weights(torch.tensor([30, 10]))
        tensor([0.6667, 2.0000], dtype=torch.float64)
    """
    present = counts > 0
    weights = counts.sum() / (present.sum() * counts.clamp(min=1).double())
    return torch.where(present, weights, 0.0)
