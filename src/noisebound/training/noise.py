"""What a training knows of the noise in its labels: told by the user, or measured."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from jaxtyping import Float64
from torch import Tensor

from noisebound.bounds import transition_bound
from noisebound.estimation.noise_estimate import rounded
from noisebound.losses import Loss

BoundOrigin: TypeAlias = Literal[
    "given",
    "given noise rate",
    "given transition",
    "estimated noise rate",
    "estimated transition",
    "measured floor",
    "not measured",
]


@dataclass(frozen=True)
class Bound:
    """A level for the mean loss, and where it comes from.

    Args:
        level: the level
        origin: what it was computed from
        reason: why this one, for the user
    """

    level: float
    origin: BoundOrigin
    reason: str


class Noise(Protocol):
    """The noise as far as it is known."""

    @property
    def noise_rate(self) -> float:
        """The probability that a label is wrong."""

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """``T[noisy, true]``."""

    def bound(self, criterion: Loss) -> Bound:
        """What the mean of a loss should not fall below."""

    def record(self) -> dict[str, Any]:
        """For ``result.json``."""


@dataclass(frozen=True, eq=False)
class KnownNoise:
    """Noise of which the transition matrix is known.

    Args:
        transition: ``T[noisy, true]``
        class_prior: the share of each true class
    """

    transition: Float64[Tensor, "classes classes"]
    class_prior: Float64[Tensor, " classes"]

    @property
    def noise_rate(self) -> float:
        """What is off the diagonal."""
        return float(1 - self.transition.diagonal() @ self.class_prior)

    def bound(self, criterion: Loss) -> Bound:
        """The entropy of the matrix."""
        level = transition_bound(criterion, self.transition, self.class_prior)
        words = "the entropy of the transition matrix that was given"
        return Bound(level, "given transition", words)

    def record(self) -> dict[str, Any]:
        """For ``result.json``; the config has the matrix."""
        return {"noise_rate": self.noise_rate, "class_prior": rounded(self.class_prior)}
