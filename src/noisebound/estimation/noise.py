"""What is known of the noise in a set of labels: given, estimated, or unknown.

Every kind answers the same questions: at which rate labels are wrong, which classes are taken for
which, and at which bound a loss should be held.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.bounds import noise_bound, symmetric_columns, transition_bound
from noisebound.checks import NoiseRateWarning
from noisebound.estimation.noise_estimate import NoiseEstimate
from noisebound.losses import Loss

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
    """A level for the mean loss, and where it comes from.

    Args:
        level: the level
        origin: what it was computed from
        reason: why this level was chosen, in words
    """

    level: float
    origin: BoundOrigin
    reason: str


class Noise(ABC):
    """What is known of the noise."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def rate(self) -> float | None:
        """The probability that a label is wrong; None if it is unknown."""

    @property
    @abstractmethod
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """``T[noisy, true]``; the identity if the noise is unknown."""

    @abstractmethod
    def bound(self, loss: Loss) -> BoundChoice:
        """Return the level that the mean of a loss should not fall below."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return all that is known, with every digit, as JSON can hold it."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the noise rate at 95 % confidence, where it is estimated."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against what is known, a sentence each."""
        return ()

    @property
    def unknown_because(self) -> str | None:
        """Why the noise must be called unknown; None if it is known, or if nobody asked."""
        return None

    @property
    def assumed_rate(self) -> float:
        """The rate that a training goes by: zero if it is unknown."""
        return 0.0 if self.rate is None else self.rate

    @property
    def is_known(self) -> bool:
        """True if the noise was given or estimated."""
        return self.rate is not None


@dataclass(frozen=True, eq=False)
class UnknownNoise(Noise):
    """Noise of which nothing is known.

    Args:
        num_classes: the number of classes
        reason: why it could not be estimated; None if nobody asked
        rejected: an estimate that is not believed, for the reason given
    """

    kind = "unknown"
    num_classes: int
    reason: str | None = None
    rejected: NoiseEstimate | None = None

    @property
    def rate(self) -> None:
        """None."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the noise is unknown, and what speaks against the rejected estimate."""
        against = () if self.rejected is None else self.rejected.diagnostics.warnings
        return (*against, *(() if self.reason is None else (self.reason,)))

    @property
    def unknown_because(self) -> str | None:
        """The reason."""
        return self.reason

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """The identity."""
        return torch.eye(self.num_classes, dtype=torch.float64)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the floor of clean labels, so that training is plain."""
        level = transition_bound(loss, self.transition)
        return BoundChoice(level, "noise unknown", f"as if there were no noise: {self.reason}")

    def record(self) -> dict[str, Any]:
        """Return the reason and the rejected estimate."""
        rejected = None if self.rejected is None else self.rejected.record()
        return {
            "kind": self.kind,
            "num_classes": self.num_classes,
            "reason": self.reason,
            "rejected": rejected,
        }


@dataclass(frozen=True, eq=False)
class GivenRate(Noise):
    """A noise rate that the user gave; the noise is taken to be symmetric.

    Args:
        noise_rate: the probability that a label is wrong
        num_classes: the number of classes
        bound_classes: c in the noise-bound, where it is not the number of classes
    """

    kind = "given rate"
    noise_rate: float
    num_classes: int
    bound_classes: int | None = None

    @property
    def rate(self) -> float:
        """The rate as given."""
        return self.noise_rate

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """The matrix of symmetric noise."""
        return symmetric_columns(torch.tensor(self.rate, dtype=torch.float64), self.num_classes)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the paper's noise-bound."""
        # The paper itself combines a rate of 0.6 with two classes: chosen on purpose, no warning.
        with warnings.catch_warnings():
            if self.bound_classes is not None:
                warnings.simplefilter("ignore", NoiseRateWarning)
            level = float(noise_bound(loss, self.rate, self.bound_classes or self.num_classes))
        reason = f"the noise-bound of the rate {self.rate:g} that was given"
        return BoundChoice(level, "given noise rate", reason)

    def record(self) -> dict[str, Any]:
        """Return the rate."""
        return {
            "kind": self.kind,
            "rate": self.rate,
            "num_classes": self.num_classes,
            "bound_classes": self.bound_classes,
        }


@dataclass(frozen=True, eq=False)
class GivenTransition(Noise):
    """A transition matrix that the user gave.

    Args:
        matrix: ``T[noisy, true]``, columns summing to one
        class_prior: the share of each true class
    """

    kind = "given transition"
    matrix: Float64[Tensor, "classes classes"]
    class_prior: Float64[Tensor, " classes"]

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """The matrix as given."""
        return self.matrix

    @property
    def rate(self) -> float:
        """The share that lies off the diagonal."""
        return float(1 - self.transition.diagonal() @ self.class_prior)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the mean entropy of the matrix's columns."""
        level = transition_bound(loss, self.transition, self.class_prior)
        reason = "the entropy of the transition matrix that was given"
        return BoundChoice(level, "given transition", reason)

    def record(self) -> dict[str, Any]:
        """Return the matrix and the prior."""
        return {
            "kind": self.kind,
            "rate": self.rate,
            "transition": self.transition.tolist(),
            "class_prior": self.class_prior.tolist(),
        }
