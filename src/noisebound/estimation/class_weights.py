r"""The noise and its floor where examples are weighted by the class of their label.

To weight the label ``y`` by ``w_y`` is to draw examples with that label ``w_y`` times as often. An
example of the true class ``k`` then has the label ``y`` with probability
``T'[y, k] = w_y T[y, k] / W_k``, where ``W_k = Σ_y w_y T[y, k]``, and the true class ``k`` has the
share ``π'_k ∝ π_k W_k``. So the floor of the weighted mean loss is a weighted mean of the classes'
own floors, ``Σ_k π_k W_k H(T'[:, k]) / Σ_k π_k W_k``.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.bounds import transition_bound
from noisebound.errors import InvalidValueError
from noisebound.estimation.estimated_noise import EstimatedNoise
from noisebound.estimation.noise import (
    BoundChoice,
    BoundOrigin,
    GivenRate,
    GivenTransition,
    Noise,
)
from noisebound.estimation.true_class import true_class_probabilities
from noisebound.losses import Loss


@dataclass(frozen=True, eq=False)
class ClassWeightedNoise(Noise):
    """What is known of the noise, as a training sees it that weights classes.

    Args:
        noise: what is known of the noise in the labels as they are
        weights: how much an example counts, by the class of its label
        label_shares: the share of each label, before weighting
    """

    kind = "class-weighted"
    noise: Noise
    weights: Float64[Tensor, " classes"]
    label_shares: Float64[Tensor, " classes"]

    @property
    def rate(self) -> float | None:
        """The share of the weight that lies on wrong labels; None if the noise is unknown."""
        if not self.noise.is_known:
            return None
        return float(1 - self.transition.diagonal() @ self.class_prior)

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """``T'[noisy, true]`` of the weighted examples."""
        weighted = self.weights[:, None] * self.noise.transition
        totals = weighted.sum(0)
        # A true class whose labels all count nothing has no share: any column will do.
        return torch.where(totals > 0, weighted / totals, self.noise.transition)

    @property
    def class_prior(self) -> Float64[Tensor, " classes"]:
        """The share of the weight that lies on each true class."""
        shares = self._unweighted_prior * (self.weights @ self.noise.transition)
        return shares / shares.sum()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against what is known of the noise."""
        return self.noise.warnings

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the weighted mean of the classes' floors."""
        if isinstance(self.noise, GivenRate) and self.noise.bound_classes is not None:
            raise InvalidValueError(
                "`bound_classes` supposes classes that count alike: leave it out, or `class_weight`"
            )
        level = transition_bound(loss, self.transition, self.class_prior)
        if not self.noise.is_known:
            return BoundChoice(level, "noise unknown", self.noise.bound(loss).reason)
        is_estimated = isinstance(self.noise, EstimatedNoise)
        origin: BoundOrigin = "estimated transition" if is_estimated else "given transition"
        how = "estimated" if is_estimated else "given"
        reason = f"the mean of the classes' floors by their weights, of the noise that was {how}"
        return BoundChoice(level, origin, reason)

    def record(self) -> dict[str, Any]:
        """Return what is known of the noise itself; the weights are the config's."""
        return self.noise.record()

    @property
    def _unweighted_prior(self) -> Float64[Tensor, " classes"]:
        if isinstance(self.noise, GivenTransition):
            return self.noise.class_prior
        if isinstance(self.noise, EstimatedNoise):
            return self.noise.estimate.class_prior
        return true_class_probabilities(self.label_shares[None], self.noise.transition)[0]


def balanced_weights(counts: Tensor) -> Float64[Tensor, " classes"]:
    """Return the weights that give every label the same part in the loss, one on average.

    A class without examples has the weight zero.

    Example:
        >>> balanced_weights(torch.tensor([30, 10]))
        tensor([0.6667, 2.0000], dtype=torch.float64)
    """
    present = counts > 0
    weights = counts.sum() / (present.sum() * counts.clamp(min=1).double())
    return torch.where(present, weights, 0.0)
