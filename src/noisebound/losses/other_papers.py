r"""Losses of other papers, all of them functions of the label's probability ``q_y``.

The asymmetric losses AGCE, AUL and AEL (Zhou et al., 2021) are finite everywhere. If one class is
likelier than the others by the factor $\varphi'(0) / \varphi'(1)$, then the expected loss is least
where that class has all of the probability. Among classes that are closer than this, the best
prediction divides the probability.
"""

import math
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_count, check_number
from noisebound.losses.best_prediction import Array
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    Labels,
    LikelihoodLoss,
    LossOptions,
    PerExample,
    Pick,
)
from noisebound.losses.robust import least_mean_absolute_error, mean_absolute_error

_SURPRISAL_OF_ZERO = -math.log(1e-4)  # the authors of RCE read a label's zeros as 1e-4


class Focal(LikelihoodLoss):
    """Focal loss ``(1 - q_y)^γ (-log q_y)`` (Lin et al., 2017).

    As a function of ``q_y`` it is convex, so its entropy is found exactly: the best prediction has
    the same ``p_k φ'(q_k)`` for all classes, and is less confident than ``p``.

    Args:
        gamma: γ, at least zero; Lin et al. use 2. At 0 the loss is cross-entropy.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Focal(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
        >>> round(nb.noise_bound(nb.Focal(gamma=2.0), noise_rate=0.4, num_classes=10), 3)
        1.13
    """

    hyperparameters = ("gamma",)
    curvature = "convex"

    def __init__(self, gamma: float = 2.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.gamma = check_number("gamma", gamma, "[0, ∞)")

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(1 - q_y)^γ (-log q_y)``."""
        # For γ < 1 the power's derivative is infinite at q_y = 1, where it is multiplied by zero.
        positive = surprisal.clamp(min=torch.finfo(surprisal.dtype).tiny)
        return mean_absolute_error(positive) ** self.gamma * surprisal

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``(1-q)^(γ-1) ((1-q)/q - γ log q)``."""
        surprisal = np.log1p(rest / q)  # exact near q = 0 and near q = 1
        slope: Array = rest ** (self.gamma - 1) * (rest / q + self.gamma * surprisal)
        return slope


class ReverseCrossEntropy(LikelihoodLoss):
    """Reverse cross-entropy ``-Σ_k q_k log 1[k=y] = A (1 - q_y)`` (Wang et al., 2019).

    The label's ``log 0`` is taken as ``-A``. SCE is the sum of this loss and cross-entropy.

    Args:
        A: at least zero; if not given, ``-log 1e-4 ≈ 9.21``, as in the authors' code.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.ReverseCrossEntropy(A=4.0), 0.4, num_classes=10), 6)
        1.6
    """

    hyperparameters = ("A",)
    curvature = "concave"

    def __init__(self, A: float = _SURPRISAL_OF_ZERO, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.A = check_number("A", A, "[0, ∞)")

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``A (1 - q_y)``."""
        return self.A * mean_absolute_error(surprisal)

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``A (1 - max_k p_k)``."""
        return self.A * least_mean_absolute_error(p)


class TaylorCrossEntropy(LikelihoodLoss):
    """Taylor cross-entropy ``Σ_{i=1}^t (1 - q_y)^i / i`` (Feng et al., 2020).

    With one term it is MAE, and with more and more terms it becomes cross-entropy.

    Args:
        order: t, the number of terms, at least one. Feng et al. choose it on validation data; two
            is the first order that is not MAE.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.TaylorCrossEntropy(order=2)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6250)
    """

    hyperparameters = ("order",)

    def __init__(self, order: int = 2, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.order = check_count("order", order)
        self.curvature = "concave" if self.order == 1 else "convex"

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``Σ_{i=1}^t (1 - q_y)^i / i``, by Horner's rule."""
        missing = mean_absolute_error(surprisal)
        total = torch.zeros_like(missing)
        for term in range(self.order, 0, -1):
            total = missing * (1 / term + total)
        return total

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``Σ_{i=0}^{t-1} (1-q)^i``."""
        slope = np.ones_like(rest)
        for _ in range(self.order - 1):
            slope = 1 + rest * slope
        return slope


class JensenShannon(LikelihoodLoss):
    """Weighted Jensen-Shannon divergence of label and prediction (Englesson & Azizpour, 2021).

    ``JS_π = (S(π e_y + (1-π) q) - (1-π) S(q)) / Z``, with Shannon's entropy S, the label's vertex
    ``e_y`` and ``Z = -(1-π) log(1-π)``. It becomes cross-entropy as π goes to 0 and MAE as π goes
    to 1. For class probabilities it is the expected loss over the classes. The authors' generalized
    divergence of several predictions per example needs augmented copies of the data; with one
    prediction it is this loss.

    Args:
        label_weight: π, the weight of the label, in ``(0, 1)``; 0.5 is the ordinary divergence.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.JensenShannon()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6226)
    """

    hyperparameters = ("label_weight",)
    curvature = "convex"

    def __init__(self, label_weight: float = 0.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.label_weight = check_number("label_weight", label_weight, "(0, 1)")

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the divergence.

        The terms of the other classes are the same in both entropies, up to ``log (1-π)``. So the
        divergence depends on ``q_y`` alone.
        """
        weight = 1 - self.label_weight
        log_weight = math.log1p(-self.label_weight)
        missing = mean_absolute_error(surprisal)
        blended = (1 - weight * missing) * torch.log1p(-weight * missing)
        own = weight * torch.exp(-surprisal) * surprisal
        return (blended + own + weight * log_weight * missing) / (weight * log_weight)

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``log(1 + π / ((1-π) q)) / -log(1-π)``."""
        odds = self.label_weight / (1 - self.label_weight)
        slope: Array = np.log1p(odds / q) / -math.log1p(-self.label_weight)
        return slope


class LabelDistributionallyRobust(LikelihoodLoss):
    """LDR-KL ``λ log((1/c) Σ_k exp((z_k - z_y + m 1[k≠y]) / λ))`` of logits z (Zhu et al., 2023).

    It is a function of the softmax at temperature λ: with its probability ``q_y`` of the label the
    loss is ``λ (-log q_y + log(q_y + exp(m/λ) (1-q_y)) - log c)``. Without a margin it is λ times
    cross-entropy at that temperature, minus ``λ log c``. The authors also normalize the logits;
    that belongs into the network.

    Args:
        lam: λ, the temperature, above 0; 1 as in most public copies of the authors' code.
        margin: m, at least zero; 0.1 as in these copies.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.LabelDistributionallyRobust(margin=0.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.)
    """

    hyperparameters = ("lam", "margin")

    def __init__(
        self, lam: float = 1.0, margin: float = 0.1, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.lam = check_number("lam", lam, "(0, ∞)")
        self.margin = check_number("margin", margin, "[0, ∞)")
        # as a function of the probability at temperature λ, whose best value slope gives
        self.curvature = "convex" if self.margin <= self.lam * math.log(2) else None

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the loss without ``-λ log c``, of the surprisal at temperature λ."""
        raised = math.expm1(self.margin / self.lam) * mean_absolute_error(surprisal)
        return self.lam * (surprisal + torch.log1p(raised))

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return the loss of ``q``, at temperature λ."""
        tempered = F.log_softmax(log_q / self.lam, dim=1)
        return super().formula(tempered, at) - self._least(log_q.shape[1])

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        """Return the loss of each example."""
        return super().losses_at_labels(logits / self.lam, labels) - self._least(logits.shape[1])

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``min_q p · L(q)``, searched if the margin is above ``λ log 2``."""
        offset = 0.0 if self.curvature is None else self._least(p.shape[1])
        return super().entropy(p) - offset

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``λ e / (q (e - (e-1) q))`` with ``e = exp(m/λ)``."""
        raised = math.exp(self.margin / self.lam)
        slope: Array = self.lam * raised / (q * (1 + (raised - 1) * rest))
        return slope

    def _least(self, num_classes: int) -> float:
        """Return ``λ log c``, by which the mean in the formula lowers the loss."""
        return self.lam * math.log(num_classes)


class AsymmetricGeneralizedCrossEntropy(LikelihoodLoss):
    """AGCE ``((a+1)^q - (a+q_y)^q) / q`` (Zhou et al., 2021).

    Args:
        a: shifts the probability away from zero; above 0, and 0.6 in Zhou et al. on CIFAR-10.
        q: the exponent, above 0, and 0.6 in Zhou et al.; from 1 on, the vertex of the likeliest
            class is always the best prediction.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.AsymmetricGeneralizedCrossEntropy(a=1.0, q=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    hyperparameters = ("a", "q")

    def __init__(self, a: float = 0.6, q: float = 0.6, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.q = check_number("a", a, "(0, ∞)"), check_number("q", q, "(0, ∞)")
        self.curvature = "concave" if self.q >= 1 else "convex"

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(a+1)^q (1 - (1 - (1-q_y)/(a+1))^q) / q``."""
        largest = math.pow(self.a + 1, self.q) / self.q
        lost = torch.expm1(-surprisal) / (self.a + 1)
        return -largest * torch.expm1(self.q * torch.log1p(lost))

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``(a+q)^(exponent-1)``."""
        slope: Array = (self.a + q) ** (self.q - 1)
        return slope


class AsymmetricUnhinged(LikelihoodLoss):
    """AUL ``((a-q_y)^p - (a-1)^p) / p`` (Zhou et al., 2021).

    Args:
        a: above 1, and 5.5 in Zhou et al. on CIFAR-10.
        p: the exponent, above 0, and 3 in Zhou et al.; up to 1, the vertex of the likeliest class
            is always the best prediction.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.AsymmetricUnhinged(a=2.0, p=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    hyperparameters = ("a", "p")

    def __init__(self, a: float = 5.5, p: float = 3.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.p = check_number("a", a, "(1, ∞)"), check_number("p", p, "(0, ∞)")
        self.curvature = "concave" if self.p <= 1 else "convex"

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(a-1)^p ((1 + (1-q_y)/(a-1))^p - 1) / p``."""
        least = math.pow(self.a - 1, self.p) / self.p
        lost = -torch.expm1(-surprisal) / (self.a - 1)
        return least * torch.expm1(self.p * torch.log1p(lost))

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``(a-q)^(p-1)``."""
        slope: Array = (self.a - 1 + rest) ** (self.p - 1)
        return slope


class AsymmetricExponential(LikelihoodLoss):
    """AEL ``exp(-q_y / a)`` (Zhou et al., 2021).

    It is never zero: its least value is ``exp(-1/a)``.

    Args:
        a: above 0, and 2.5 in Zhou et al. on CIFAR-10.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.AsymmetricExponential(a=2.5), 0.0, num_classes=10), 4)
        0.6703
    """

    hyperparameters = ("a",)
    curvature = "convex"

    def __init__(self, a: float = 2.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a = check_number("a", a, "(0, ∞)")

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``exp(-q_y / a)``."""
        return torch.exp(-torch.exp(-surprisal) / self.a)

    def slope(self, q: Array, rest: Array) -> Array:
        """Return ``exp(-q/a) / a``."""
        slope: Array = np.exp(-q / self.a) / self.a
        return slope
