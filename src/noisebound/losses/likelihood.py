r"""Losses that are one function of ``-log q_y``: those of the paper, then those of other papers.

They cost about as much as cross-entropy. Their floor follows from a noise model or a curvature.

The asymmetric losses AGCE, AUL and AEL (Zhou et al., 2021) are finite. If one class is likelier
than the others by the factor $\varphi'(0) / \varphi'(1)$, the best prediction gives it all of the
probability; else it divides the probability.
"""

import math
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_count, check_number
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
    Reduction,
    Surprisal,
    refuse_out_of_range,
)
from noisebound.noise_models import Identity, Power, Saturating

_SURPRISAL_OF_ZERO = -math.log(1e-4)  # the authors of RCE replace the zeros of a label by 1e-4


def shannon_entropy(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Return ``-Σ_k p_k log p_k``, with ``0 log 0 = 0``: the entropy that belongs to CE."""
    entropies: Tensor = torch.special.entr(p).sum(-1)
    return entropies


def mean_absolute_error(surprisal: Surprisal) -> Surprisal:
    """Return ``1 - q_y`` of ``-log q_y``."""
    return -torch.expm1(-surprisal)


def generalized_cross_entropy(surprisal: Surprisal, a: float) -> Surprisal:
    """Return ``(1 - q_y^a) / a`` of ``-log q_y``, accurate even if ``q_y`` is near one."""
    # For x ≤ 0, this ELU is expm1(a x) / a in one kernel instead of three. The derivative of
    # torch.celu(x, 1/a) is less exact, because it rounds 1/a to float32.
    scaled: Tensor = torch.ops.aten.elu(-surprisal, 1 / a, 1.0, a)
    return -scaled


class CrossEntropy(LikelihoodLoss):
    """Cross-entropy ``-log q_y``. Its noise model is the identity, its entropy Shannon's.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.CrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.3863)
        >>> round(nb.noise_bound(nb.CrossEntropy(), noise_rate=0.4, num_classes=2), 3)
        0.673
    """

    noise_model = Identity()

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return surprisal

    def reduced(self, reduction: Reduction, logits: Tensor, labels: Tensor) -> Tensor:
        """Return torch's own cross-entropy, which is one call."""
        logits = self.check_logits(logits, labels)
        labels = labels.to(logits.dtype) if labels.is_floating_point() else labels.long()
        try:
            return F.cross_entropy(
                logits,
                labels,
                weight=None if self.weight is None else self.weight.to(logits),
                ignore_index=self.ignore_index,
                reduction=reduction,
                label_smoothing=self.label_smoothing,
            )
        except IndexError:
            refuse_out_of_range(labels, logits.shape[1], self.ignore_index)
            raise


class MeanAbsoluteError(LikelihoodLoss):
    """Mean absolute error ``1 - q_y``, half the L1 distance between ``q`` and the label.

    It is least at a vertex of the simplex, so no noise model makes it a proper loss. Its entropy is
    the Bayes risk ``1 - max_k p_k``, and its noise-bound is the noise rate.

    Example:
        >>> import noisebound as nb
        >>> nb.noise_bound(nb.MeanAbsoluteError(), noise_rate=0.4, num_classes=10)
        0.4
    """

    curvature = "concave"

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return mean_absolute_error(surprisal)

    def entropy(self, p: Distributions) -> Entropies:
        return 1 - p.amax(1)


class GeneralizedCrossEntropy(LikelihoodLoss):
    """Generalized cross-entropy ``(1 - q_y^a) / a`` (Zhang & Sabuncu, 2018).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Power`.

    Args:
        a: exponent in ``(0, 1]``; the paper uses 0.4. At 1 the loss is MAE and has no noise model.

    Example:
        >>> GeneralizedCrossEntropy(a=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, a: float = 0.4, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a = check_number("a", a, "(0, 1]")
        self.noise_model = Power(self.a) if self.a < 1 else None
        self.curvature = None if self.a < 1 else "concave"

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return generalized_cross_entropy(surprisal, self.a)


class SymmetricCrossEntropy(LikelihoodLoss):
    """Symmetric cross-entropy ``-log q_y + A (1 - q_y)`` (Wang et al., 2019).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Saturating`.

    Args:
        A: weight of the MAE term, at least zero; the paper uses 8.

    Example:
        >>> SymmetricCrossEntropy(A=8.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(4.6931)
    """

    def __init__(self, A: float = 8.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.A = check_number("A", A, "[0, ∞)")
        self.noise_model = Saturating(self.A)

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return torch.sub(surprisal, torch.expm1(-surprisal), alpha=self.A)


class ReverseCrossEntropy(LikelihoodLoss):
    """Reverse cross-entropy ``-Σ_k q_k log 1[k=y] = A (1 - q_y)`` (Wang et al., 2019).

    The label's ``log 0`` is taken as ``-A``. SCE is the sum of this loss and cross-entropy.

    Args:
        A: at least zero; by default ``-log 1e-4 ≈ 9.21``, as in the authors' code.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.ReverseCrossEntropy(A=4.0), 0.4, num_classes=10), 6)
        1.6
    """

    curvature = "concave"

    def __init__(self, A: float = _SURPRISAL_OF_ZERO, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.A = check_number("A", A, "[0, ∞)")

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return self.A * mean_absolute_error(surprisal)


class Focal(LikelihoodLoss):
    """Focal loss ``(1 - q_y)^γ (-log q_y)`` (Lin et al., 2017).

    Args:
        gamma: γ, at least zero; Lin et al. use 2. At 0 the loss is cross-entropy.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Focal(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
        >>> round(nb.noise_bound(nb.Focal(gamma=2.0), noise_rate=0.4, num_classes=10), 3)
        1.13
    """

    curvature = "convex"

    def __init__(self, gamma: float = 2.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.gamma = check_number("gamma", gamma, "[0, ∞)")

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        # For γ < 1 the power's derivative is infinite at q_y = 1, where it is multiplied by zero.
        positive = surprisal.clamp(min=torch.finfo(surprisal.dtype).tiny)
        return mean_absolute_error(positive) ** self.gamma * surprisal


class TaylorCrossEntropy(LikelihoodLoss):
    """Taylor cross-entropy ``Σ_{i=1}^t (1 - q_y)^i / i`` (Feng et al., 2020).

    With one term it is MAE, and with more and more terms it becomes cross-entropy.

    Args:
        order: t, the number of terms, at least one; the paper chooses it on validation data.

    Example:
        >>> TaylorCrossEntropy(order=2)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6250)
    """

    def __init__(self, order: int = 2, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.order = check_count("order", order)
        self.curvature = "concave" if self.order == 1 else "convex"

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        missing = mean_absolute_error(surprisal)
        total = torch.zeros_like(missing)
        for term in range(self.order, 0, -1):  # Horner's rule
            total = missing * (1 / term + total)
        return total


class JensenShannon(LikelihoodLoss):
    """Weighted Jensen-Shannon divergence of label and prediction (Englesson & Azizpour, 2021).

    ``JS_π = (S(π e_y + (1-π) q) - (1-π) S(q)) / Z``, with Shannon's entropy S, the label's vertex
    ``e_y`` and ``Z = -(1-π) log(1-π)``. It becomes cross-entropy as π goes to 0 and MAE as π goes
    to 1. For class probabilities it is the expected loss over the classes.

    Args:
        label_weight: π, the weight of the label, in ``(0, 1)``; 0.5 is the ordinary divergence.

    Example:
        >>> JensenShannon()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6226)
    """

    curvature = "convex"

    def __init__(self, label_weight: float = 0.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.label_weight = check_number("label_weight", label_weight, "(0, 1)")

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        # The terms of the other classes are the same in both entropies, up to log (1-π).
        weight, log_weight = 1 - self.label_weight, math.log1p(-self.label_weight)
        missing = mean_absolute_error(surprisal)
        blended = (1 - weight * missing) * torch.log1p(-weight * missing)
        own = weight * torch.exp(-surprisal) * surprisal
        return (blended + own + weight * log_weight * missing) / (weight * log_weight)


class LabelDistributionallyRobust(LikelihoodLoss):
    """LDR-KL ``λ log((1/c) Σ_k exp((z_k - z_y + m 1[k≠y]) / λ))`` of logits z (Zhu et al., 2023).

    It is a function of the softmax at temperature λ: with its probability ``q_y`` of the label the
    loss is ``λ (-log q_y + log(q_y + exp(m/λ) (1-q_y)) - log c)``. Without a margin it is λ times
    cross-entropy at that temperature, minus ``λ log c``.

    Args:
        lam: λ, the temperature, above 0; 1 as in most public copies of the authors' code.
        margin: m, at least zero; 0.1 as in these copies.

    Example:
        >>> LabelDistributionallyRobust(margin=0.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.)
    """

    def __init__(
        self, lam: float = 1.0, margin: float = 0.1, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.lam = check_number("lam", lam, "(0, ∞)")
        self.margin = check_number("margin", margin, "[0, ∞)")
        # As a function of the probability at temperature λ; a wide margin takes a search.
        self.curvature = "convex" if self.margin <= self.lam * math.log(2) else None

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        """Return the loss without ``-λ log c``, of the surprisal at temperature λ."""
        raised = math.expm1(self.margin / self.lam) * mean_absolute_error(surprisal)
        return self.lam * (surprisal + torch.log1p(raised))

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        tempered = F.log_softmax(log_q / self.lam, dim=1)
        return super().formula(tempered, at) - self._offset(log_q.shape[1])

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        losses = super().losses_at_labels(logits / self.lam, labels)
        return losses - self._offset(logits.shape[1])

    def best_prediction(self, p: Distributions) -> Distributions | None:
        """Return the prediction whose softmax at temperature λ is best for `of_surprisal`."""
        best = super().best_prediction(p)
        return None if best is None else (self.lam * best.log()).softmax(1)

    def _offset(self, num_classes: int) -> float:
        return self.lam * math.log(num_classes)


class AsymmetricGeneralizedCrossEntropy(LikelihoodLoss):
    """AGCE ``((a+1)^q - (a+q_y)^q) / q`` (Zhou et al., 2021).

    Args:
        a: shifts the probability away from zero; above 0, and 0.6 in Zhou et al. on CIFAR-10.
        q: the exponent, above 0, and 0.6 in Zhou et al.; from 1 on, the vertex of the likeliest
            class is always the best prediction.

    Example:
        >>> AsymmetricGeneralizedCrossEntropy(a=1.0, q=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, a: float = 0.6, q: float = 0.6, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.q = check_number("a", a, "(0, ∞)"), check_number("q", q, "(0, ∞)")
        self.curvature = "concave" if self.q >= 1 else "convex"

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        largest = math.pow(self.a + 1, self.q) / self.q
        lost = torch.expm1(-surprisal) / (self.a + 1)
        return -largest * torch.expm1(self.q * torch.log1p(lost))


class AsymmetricUnhinged(LikelihoodLoss):
    """AUL ``((a-q_y)^p - (a-1)^p) / p`` (Zhou et al., 2021).

    Args:
        a: above 1, and 5.5 in Zhou et al. on CIFAR-10.
        p: the exponent, above 0, and 3 in Zhou et al.; up to 1, the vertex of the likeliest class
            is always the best prediction.

    Example:
        >>> AsymmetricUnhinged(a=2.0, p=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, a: float = 5.5, p: float = 3.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.p = check_number("a", a, "(1, ∞)"), check_number("p", p, "(0, ∞)")
        self.curvature = "concave" if self.p <= 1 else "convex"

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        least = math.pow(self.a - 1, self.p) / self.p
        lost = -torch.expm1(-surprisal) / (self.a - 1)
        return least * torch.expm1(self.p * torch.log1p(lost))


class AsymmetricExponential(LikelihoodLoss):
    """AEL ``exp(-q_y / a)`` (Zhou et al., 2021). Its least value is ``exp(-1/a)``.

    Args:
        a: above 0, and 2.5 in Zhou et al. on CIFAR-10.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.AsymmetricExponential(a=2.5), 0.0, num_classes=10), 4)
        0.6703
    """

    curvature = "convex"

    def __init__(self, a: float = 2.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a = check_number("a", a, "(0, ∞)")

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return torch.exp(-torch.exp(-surprisal) / self.a)
