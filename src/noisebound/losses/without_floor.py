"""Losses without a floor: those that remember each example, and one that ranks its batch.

Truncated GCE and ELR need the positions of the examples in the training set. The noise-pruned
curriculum leaves out the examples of a batch with the highest loss.
"""

import math
from abc import abstractmethod
from typing import Literal, TypeAlias, Unpack, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_count, check_num_classes, check_number
from noisebound.errors import InvalidValueError
from noisebound.losses.likelihood import generalized_cross_entropy
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    LikelihoodLoss,
    Loss,
    LossOptions,
    PerExample,
    Pick,
    Reduction,
    Surprisal,
    check_shapes,
    is_traced,
    reduce_losses,
)

_LARGEST_TARGET = 1 - 1e-4  # the limit of ELR's reference implementation, there for predictions

BaseLoss: TypeAlias = Literal["hinge", "cross-entropy"]


class RememberingLoss(LikelihoodLoss):
    """A loss that remembers something of each of ``num_samples`` training examples.

    ``indices`` are the positions of the batch's examples in the training set. Training needs them;
    in evaluation mode they may be left out, for examples that are not in the memory.

    Args:
        num_samples: number of examples in the training set.
    """

    refused_options = ("ignore_index", "weight", "label_smoothing")

    def __init__(self, num_samples: int, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.num_samples = check_count("num_samples", num_samples)

    @abstractmethod
    def with_memory(self, losses: Tensor, logits: Tensor, indices: Tensor) -> Tensor:
        """Return the losses as changed by the memory of these examples."""

    def forward(self, logits: Tensor, labels: Tensor, indices: Tensor | None = None) -> Tensor:
        """Return the reduced loss; ``indices`` are the examples' positions in the training set."""
        return self.reduced(self.reduction, logits, labels, indices)

    def reduced(
        self, reduction: Reduction, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Tensor:
        return reduce_losses(*self.weighted_losses(logits, labels, indices), reduction)

    def weighted_losses(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> tuple[PerExample, PerExample | None]:
        losses, weights = super().weighted_losses(logits, labels)
        if indices is None and not self.training:
            return losses, weights
        losses = self.with_memory(losses, logits, self.check_indices(logits, indices))
        return losses if weights is None else torch.where(weights > 0, losses, 0.0), weights

    def check_indices(self, logits: Tensor, indices: Tensor | None) -> Int[Tensor, " batch"]:
        """Return the positions in the training set, one per row of the logits."""
        name = type(self).__name__
        if indices is None:
            raise InvalidValueError(
                f"{name} remembers each example: call it as loss(logits, labels, indices), with "
                "the positions of the batch's examples in the training set"
            )
        if indices.is_floating_point() or logits.ndim != 2 or indices.shape != logits.shape[:1]:
            raise InvalidValueError(
                f"{name} takes logits [N, C] and integer indices [N], got logits "
                f"{tuple(logits.shape)} and {indices.dtype} indices {tuple(indices.shape)}"
            )
        if indices.device.type == "cpu" and indices.numel() and not is_traced():
            least, most = (int(extreme) for extreme in indices.aminmax())
            if least < 0 or most >= self.num_samples:
                raise InvalidValueError(
                    f"`indices` must lie in 0 … {self.num_samples - 1} (num_samples="
                    f"{self.num_samples}), got {least if least < 0 else most}"
                )
        return indices.to(logits.device, torch.int64)

    def entropy(self, p: Distributions) -> Entropies:
        raise InvalidValueError(
            f"{type(self).__name__} has no noise-bound, because the loss of an example depends on "
            "its memory; pass `bound` to BoundedLoss instead"
        )


class Truncated(RememberingLoss):
    """``v_i ((1 - q_y^q) / q - (1 - k^q) / q)``, with ``v_i`` 1 if example ``i`` is kept, else 0.

    Zhang & Sabuncu (2018) train GCE like this. At first all examples are kept. After the epochs of
    :meth:`prunes_at`, :meth:`choose` keeps those whose label has a probability above ``k``. In the
    mean, dropped examples count as zeros.

    Args:
        num_samples: number of examples in the training set.
        q: GCE's exponent, in ``(0, 1]``.
        k: the probability of its label below which an example is dropped, in ``(0, 1]``.
        start_prune: the first epoch, counted from one, after which examples are dropped.
        prune_every: from then on, examples are chosen in every epoch divisible by this.

    Example:
        >>> loss = Truncated(num_samples=2)
        >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
        >>> loss.choose(logits, labels, torch.arange(2))
        >>> loss.kept
        tensor([ True, False])
    """

    kept: Tensor

    def __init__(
        self,
        num_samples: int,
        q: float = 0.7,
        k: float = 0.5,
        start_prune: int = 40,
        prune_every: int = 10,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(num_samples, **options)
        self.q = check_number("q", q, "(0, 1]")
        self.k = check_number("k", k, "(0, 1]")
        self.start_prune = check_count("start_prune", start_prune)
        self.prune_every = check_count("prune_every", prune_every)
        self.register_buffer("kept", torch.ones(self.num_samples, dtype=torch.bool))

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        at_threshold = -math.expm1(self.q * math.log(self.k)) / self.q
        return generalized_cross_entropy(surprisal, self.q) - at_threshold

    def with_memory(self, losses: Tensor, logits: Tensor, indices: Tensor) -> Tensor:
        return losses * self.kept.to(logits.device)[indices]

    def prunes_at(self, epoch: int) -> bool:
        """True if the examples are chosen again after this epoch, counted from one."""
        return epoch >= self.start_prune and epoch % self.prune_every == 0

    @torch.no_grad()
    def choose(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Keep those of these examples whose label has a probability above ``k``; drop the others.

        The labels are class indices, and the indices positions in the training set.
        """
        if labels.is_floating_point():
            raise InvalidValueError("choose() takes class indices as `labels`, got probabilities")
        check_shapes(logits, labels, self.num_classes)
        indices = self.check_indices(logits, indices)
        surprisal = F.cross_entropy(logits.float(), labels.long(), reduction="none")
        self.kept = self.kept.to(logits.device)
        self.kept.index_copy_(0, indices, surprisal < -math.log(self.k))


class EarlyLearning(RememberingLoss):
    """``-log q_y + λ log(1 - <t, q>)`` with running targets ``t ← β t + (1-β) q``.

    This is early-learning regularization (Liu et al., 2020). The targets start at zero, are updated
    with each training batch before they are used, and have no gradient. They stay below
    ``1 - 1e-4``, so that the regularizer is bounded below; the reference implementation clamps the
    *predictions* instead, which then lose their gradient. In evaluation mode they are not updated,
    and without ``indices`` the loss is cross-entropy.

    Args:
        num_samples: number of examples in the training set.
        num_classes: c, at least two.
        lam: λ, the weight of the regularizer, at least zero.
        beta: β, the share of its old value that a target keeps, in ``[0, 1]``.

    Example:
        >>> loss = EarlyLearning(num_samples=1, num_classes=2)
        >>> value = loss(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([0]))
        >>> loss.targets
        tensor([[0.1500, 0.1500]])
    """

    targets: Tensor

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        lam: float = 3.0,
        beta: float = 0.7,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(num_samples, **options)
        self.require_num_classes(check_num_classes(num_classes))
        self.lam = check_number("lam", lam, "[0, ∞)")
        self.beta = check_number("beta", beta, "[0, 1]")
        self.register_buffer("targets", torch.zeros(self.num_samples, num_classes))

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        return surprisal

    def with_memory(self, losses: Tensor, logits: Tensor, indices: Tensor) -> Tensor:
        log_q = F.log_softmax(logits, dim=1, dtype=losses.dtype)
        self.targets = self.targets.to(losses)
        if self.training:
            updated = self.beta * self.targets[indices] + (1 - self.beta) * log_q.detach().exp()
            self.targets.index_copy_(0, indices, updated.clamp(max=_LARGEST_TARGET))
        # In log space, from 1 - <t, q> = Σ_k (1 - t_k) q_k
        distance = torch.logsumexp(torch.log1p(-self.targets[indices]) + log_q, dim=1)
        return losses + self.lam * distance


def choose_by_curriculum(
    losses: Float[Tensor, " examples"], threshold: Float[Tensor, ""]
) -> Bool[Tensor, " examples"]:
    """Return the mask of admitted examples (Lyu & Tsang, 2020, Algorithm 1).

    With ascending losses and their running sums ``S_i``, these are the ``i`` with
    ``S_i ≤ C + 1 - i``, where ``C`` is the threshold.
    """
    order = losses.argsort()
    rank = torch.arange(1, len(losses) + 1, device=losses.device)
    admitted = losses[order].cumsum(0) <= threshold + 1 - rank
    return torch.zeros_like(admitted).scatter(0, order, admitted)


def hinge(log_q: ClassScores, at: Pick) -> AtLabels:
    """Return ``max(0, 1 - z_y + max_{k≠y} z_k)``; log-probabilities differ as the logits z do."""
    top = log_q.topk(2, dim=1).values
    largest, second = top[:, :1], top[:, 1:]
    others = torch.where(log_q >= largest, second, largest)  # the largest of the other classes
    return (1 - at(log_q) + at(others)).clamp(min=0)


class Curriculum(Loss):
    """The base loss of the examples that the noise-pruned curriculum admits (Lyu & Tsang, 2020).

    In a batch of ``n`` examples, ``e`` of them misclassified, the threshold is
    ``C = (1-ε)² n + (1-ε) e``. Examples that are left out have loss zero and do not count in the
    mean; if all are left out, the mean is zero. An example whose loss is NaN is never left out.

    The threshold counts mistakes, so the base loss should be an upper bound of the 0-1 loss. The
    authors take the hinge, which is about 1 for each example at the start of a training.
    Cross-entropy is ``log c``, so that few examples are admitted, and the network never learns the
    classes whose examples are left out.

    Args:
        noise_rate: ε, the share of wrong labels, in ``[0, 1]``.
        base: ``"hinge"``, which is ``max(0, 1 - z_y + max_{k≠y} z_k)`` of the logits z, or
            ``"cross-entropy"``.

    Example:
        >>> logits = torch.tensor([[0.5, 0.0], [9.0, 0.0], [9.0, 0.0]])
        >>> Curriculum(noise_rate=0.3, reduction="none")(logits, torch.tensor([0, 0, 1]))
        tensor([0.5000, 0.0000, 0.0000])
    """

    refused_options = ("ignore_index", "weight", "label_smoothing")

    def __init__(
        self, noise_rate: float, base: BaseLoss = "hinge", **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.noise_rate = check_number("noise_rate", noise_rate, "[0, 1]")
        if base not in get_args(BaseLoss):
            raise InvalidValueError(f"`base` must be 'hinge' or 'cross-entropy', got {base!r}")
        self.base = base

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        return hinge(log_q, at) if self.base == "hinge" else -at(log_q)

    def weighted_losses(self, logits: Tensor, labels: Tensor) -> tuple[PerExample, PerExample]:
        """Return losses and weights, both zero for the examples left out."""
        losses, weights = super().weighted_losses(logits, labels)
        counts = torch.ones_like(losses, dtype=torch.bool) if weights is None else weights > 0
        candidates = torch.where(counts, losses.detach(), torch.inf)
        truth = labels.argmax(1) if labels.is_floating_point() else labels
        mistakes = ((logits.argmax(1) != truth) & counts).sum()
        kept_share = 1 - self.noise_rate
        threshold = kept_share**2 * counts.sum() + kept_share * mistakes
        admitted = choose_by_curriculum(candidates.flatten(), threshold).view_as(counts)
        # NaN losses count, so that a diverged training is visible.
        admitted = admitted | losses.isnan()
        # If no example is admitted, the weights stay, so that the mean is zero and not 0/0.
        weights = torch.where(admitted.any(), admitted, counts).to(losses.dtype)
        return torch.where(admitted, losses, 0.0), weights

    def entropy(self, p: Distributions) -> Entropies:
        raise InvalidValueError(
            "Curriculum has no noise-bound, because which examples count depends on the rest of "
            "their batch; pass `bound` to BoundedLoss instead"
        )
