r"""The noise in a set of labels: given, estimated, or unknown.

Each kind has a noise rate, a transition matrix, and a bound for each loss.

Class weights change the noise and the floor. Weighting the label ``y`` by ``w_y`` is the same as
drawing its examples ``w_y`` times as often. An example of the true class ``k`` then has the label
``y`` with probability ``T'[y, k] = w_y T[y, k] / W_k``, where ``W_k = Σ_y w_y T[y, k]``, and the
true class ``k`` has the share ``π'_k ∝ π_k W_k``. So the floor of the weighted mean loss is a
weighted mean of the classes' floors, ``Σ_k π_k W_k H(T'[:, k]) / Σ_k π_k W_k``.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.bounds import noise_bound, symmetric_columns, transition_bound
from noisebound.checks import NoiseRateWarning
from noisebound.errors import InvalidValueError
from noisebound.estimation.estimate import NoiseEstimate
from noisebound.estimation.predictions import Matrix
from noisebound.estimation.transitions import true_class_probabilities
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
    """A level for the mean loss.

    Args:
        level: the level
        origin: the source of the level
        reason: the reason for this level, in words
    """

    level: float
    origin: BoundOrigin
    reason: str


class Noise(ABC):
    """The noise in a set of labels."""

    kind: ClassVar[str]

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
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of an estimated noise rate."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems with an estimate, one sentence each."""
        return ()

    @property
    def unknown_because(self) -> str | None:
        """Why the noise could not be estimated; None if it is known or was not estimated."""
        return None

    @property
    def assumed_rate(self) -> float:
        """The rate that training uses; zero for unknown noise."""
        return 0.0 if self.rate is None else self.rate

    @property
    def is_known(self) -> bool:
        """True if the noise was given or estimated."""
        return self.rate is not None

    def expected_wrong(self, num_labels: int) -> int | None:
        """Return the expected number of wrong labels; None for unknown noise."""
        return None if self.rate is None else round(self.rate * num_labels)

    def prior_given(self, label_shares: Float64[Tensor, " classes"]) -> Float64[Tensor, " classes"]:
        """Return the share of each true class, given the share of each label."""
        return true_class_probabilities(label_shares[None], self.transition)[0]


@dataclass(frozen=True, eq=False)
class UnknownNoise(Noise):
    """Noise that was not estimated, or could not be.

    Args:
        num_classes: the number of classes
        reason: why it could not be estimated; None if it was not estimated
        rejected: an estimate that was rejected for this reason
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
        """The problems with the rejected estimate, and the reason."""
        problems = () if self.rejected is None else self.rejected.diagnostics.warnings
        return problems if self.reason is None else (*problems, self.reason)

    @property
    def unknown_because(self) -> str | None:
        """The reason."""
        return self.reason

    @property
    def transition(self) -> Matrix:
        """The identity."""
        return torch.eye(self.num_classes, dtype=torch.float64)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the floor of clean labels, which makes training plain."""
        level = transition_bound(loss, self.transition)
        return BoundChoice(level, "noise unknown", f"as if there were no noise: {self.reason}")


@dataclass(frozen=True, eq=False)
class GivenRate(Noise):
    """A noise rate that the user gave; the noise is assumed to be symmetric.

    Args:
        noise_rate: the probability that a label is wrong
        num_classes: the number of classes
        bound_classes: c in the noise-bound; by default the number of classes
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
    def transition(self) -> Matrix:
        """The matrix of symmetric noise."""
        return symmetric_columns(torch.tensor(self.rate, dtype=torch.float64), self.num_classes)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the paper's noise-bound."""
        # The paper combines a rate of 0.6 with two classes on purpose.
        with warnings.catch_warnings():
            if self.bound_classes is not None:
                warnings.simplefilter("ignore", NoiseRateWarning)
            level = float(noise_bound(loss, self.rate, self.bound_classes or self.num_classes))
        reason = f"the noise-bound of the rate {self.rate:g} that was given"
        return BoundChoice(level, "given noise rate", reason)


@dataclass(frozen=True, eq=False)
class GivenTransition(Noise):
    """A transition matrix that the user gave.

    Args:
        matrix: ``T[noisy, true]``, columns summing to one
        class_prior: the share of each true class
    """

    kind = "given transition"
    matrix: Matrix
    class_prior: Float64[Tensor, " classes"]

    @property
    def transition(self) -> Matrix:
        """The matrix as given."""
        return self.matrix

    @property
    def rate(self) -> float:
        """The share that lies off the diagonal."""
        return _off_diagonal(self.transition, self.class_prior)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the mean entropy of the matrix's columns."""
        level = transition_bound(loss, self.transition, self.class_prior)
        reason = "the entropy of the transition matrix that was given"
        return BoundChoice(level, "given transition", reason)

    def prior_given(self, label_shares: Float64[Tensor, " classes"]) -> Float64[Tensor, " classes"]:
        """Return the class prior."""
        return self.class_prior


@dataclass(frozen=True, eq=False)
class ClassWeightedNoise(Noise):
    """The noise among examples that are weighted by their label.

    Args:
        noise: the noise without weights
        weights: the weight of each label
        label_shares: the share of each label, before weighting
    """

    kind = "class-weighted"
    noise: Noise
    weights: Float64[Tensor, " classes"]
    label_shares: Float64[Tensor, " classes"]

    @property
    def rate(self) -> float | None:
        """The share of the weight on wrong labels; None for unknown noise."""
        return _off_diagonal(self.transition, self.class_prior) if self.noise.is_known else None

    @property
    def transition(self) -> Matrix:
        """``T'[noisy, true]`` of the weighted examples."""
        weighted = self.weights[:, None] * self.noise.transition
        totals = weighted.sum(0)
        # A true class whose labels all have weight 0 has no share, so its column does not matter.
        return torch.where(totals > 0, weighted / totals, self.noise.transition)

    @property
    def class_prior(self) -> Float64[Tensor, " classes"]:
        """The share of the weight on each true class."""
        prior = self.noise.prior_given(self.label_shares)
        shares = prior * (self.weights @ self.noise.transition)
        return shares / shares.sum()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems with an estimate."""
        return self.noise.warnings

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the weighted mean of the classes' floors."""
        if isinstance(self.noise, GivenRate) and self.noise.bound_classes is not None:
            raise InvalidValueError(
                "`bound_classes` needs classes of equal weight: leave it out, or `class_weight`"
            )
        level = transition_bound(loss, self.transition, self.class_prior)
        if not self.noise.is_known:
            return BoundChoice(level, "noise unknown", self.noise.bound(loss).reason)
        is_estimated = self.noise.kind == "estimated"
        origin: BoundOrigin = "estimated transition" if is_estimated else "given transition"
        how = "estimated" if is_estimated else "given"
        reason = f"the weighted mean of the classes' floors, by the {how} noise"
        return BoundChoice(level, origin, reason)


def _off_diagonal(transition: Matrix, class_prior: Float64[Tensor, " classes"]) -> float:
    return float(1 - transition.diagonal() @ class_prior)


def balanced_weights(counts: Tensor) -> Float64[Tensor, " classes"]:
    """Return weights that give each class the same total; their mean over the examples is one.

    A class without examples has the weight zero.

    Example:
        >>> balanced_weights(torch.tensor([30, 10]))
        tensor([0.6667, 2.0000], dtype=torch.float64)
    """
    present = counts > 0
    weights = counts.sum() / (present.sum() * counts.clamp(min=1).double())
    return torch.where(present, weights, 0.0)
