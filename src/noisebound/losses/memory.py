"""Losses that remember each training example, and so need the positions of the examples."""

import math
from typing import Any, TypeAlias, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_count, check_num_classes, check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses.labels import check_shapes, is_traced
from noisebound.losses.loss import (
    Distributions,
    Entropies,
    LikelihoodLoss,
    LossOptions,
    Reduction,
    reduce_losses,
)
from noisebound.losses.robust import generalized_cross_entropy

_LARGEST_TARGET = 1 - 1e-4  # the limit of ELR's reference implementation, there for predictions

Positions: TypeAlias = Int[Tensor, " batch"]
BatchLosses: TypeAlias = Float[Tensor, " batch"]


class RememberingLoss(LikelihoodLoss):
    """A loss that remembers something of each of ``num_samples`` training examples.

    In training mode ``indices`` is required: the position of each example of the batch in the
    training set. In evaluation mode it may be left out, for examples that are not in the memory.

    Args:
        num_samples: number of examples in the training set.
    """

    refused_options = ("ignore_index", "weight", "label_smoothing")

    def __init__(self, num_samples: int, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.num_samples = check_count("num_samples", num_samples)

    def with_memory(
        self, losses: BatchLosses, logits: Distributions, indices: Positions
    ) -> BatchLosses:
        """Return the losses as changed by the memory of these examples."""
        raise InvalidTypeError(
            f"{type(self).__name__} must define with_memory(losses, logits, indices)"
        )

    def forward(self, logits: Tensor, labels: Tensor, indices: Tensor | None = None) -> Tensor:
        """Return the reduced loss.

        Args:
            logits: of shape ``[N, C]``.
            labels: class indices of shape ``[N]``, or class probabilities of shape ``[N, C]``.
            indices: the positions of the batch's examples in the training set, of shape ``[N]``.
        """
        return self.reduced(self.reduction, logits, labels, indices)

    def reduced(
        self, reduction: Reduction, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Tensor:
        """Return the loss with this reduction instead of its own."""
        return reduce_losses(*self.weighted_losses(logits, labels, indices), reduction)

    def weighted_losses(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> tuple[BatchLosses, BatchLosses | None]:
        """Return the loss of each example, changed by the memory, and its weight in the mean."""
        losses, weights = super().weighted_losses(logits, labels)
        if indices is None and not self.training:
            return losses, weights
        losses = self.with_memory(losses, logits, self.check_indices(logits, indices))
        return losses if weights is None else torch.where(weights > 0, losses, 0.0), weights

    def check_indices(self, logits: Tensor, indices: Tensor | None) -> Positions:
        """Return the positions in the training set, one per row of the logits."""
        name = type(self).__name__
        if indices is None:
            raise InvalidValueError(
                f"{name} remembers every example: call it as loss(logits, labels, indices), where "
                "`indices` are the positions of the batch's examples in the training set"
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
        """Raise an error: the loss of an example depends on its memory."""
        raise InvalidValueError(
            f"{type(self).__name__} has no noise-bound, because the loss of an example depends on "
            "its memory; pass `bound` to BoundedLoss instead"
        )


class Truncated(RememberingLoss):
    """``v_i ((1 - q_y^q) / q - (1 - k^q) / q)``, with ``v_i`` 1 if example ``i`` is kept, else 0.

    Zhang & Sabuncu (2018) train GCE like this. At first all examples are kept. In the epochs that
    :meth:`prunes_at` names, :meth:`choose` decides again: an example is kept if the model gives its
    label a probability above ``k``. In the mean, dropped examples count as zeros.

    Args:
        num_samples: number of examples in the training set.
        q: GCE's exponent, in ``(0, 1]``.
        k: the probability of its label below which an example is dropped, in ``(0, 1]``.
        start_prune: the first epoch, counted from one, after which examples are dropped.
        prune_every: after ``start_prune``, examples are chosen in every epoch divisible by this.

    Example:
        >>> import noisebound as nb, torch
        >>> loss = nb.Truncated(num_samples=2)
        >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
        >>> loss.choose(logits, labels, torch.arange(2))
        >>> loss.kept
        tensor([ True, False])
    """

    hyperparameters = ("num_samples", "q", "k")
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

    def of_surprisal(self, surprisal: Tensor) -> Tensor:
        """Return GCE minus its value at the threshold."""
        at_threshold = -math.expm1(self.q * math.log(self.k)) / self.q
        return generalized_cross_entropy(surprisal, self.q) - at_threshold

    def with_memory(
        self, losses: BatchLosses, logits: Distributions, indices: Positions
    ) -> BatchLosses:
        """Return the losses, with zeros for the dropped examples."""
        return losses * self.kept.to(logits.device)[indices]

    def prunes_at(self, epoch: int) -> bool:
        """True if the examples are chosen again after this epoch, counted from one."""
        return epoch >= self.start_prune and epoch % self.prune_every == 0

    @torch.no_grad()
    def choose(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Keep those of these examples whose label has a probability above ``k``; drop the others.

        Args:
            logits: of shape ``[N, C]``.
            labels: class indices of shape ``[N]``.
            indices: the examples' positions in the training set, of shape ``[N]``.
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
    *predictions* instead, which then lose their gradient. They are kept in the precision of the
    losses. In evaluation mode they are not updated, and without ``indices`` the loss is
    cross-entropy.

    Args:
        num_samples: number of examples in the training set.
        num_classes: c, at least two.
        lam: λ, the weight of the regularizer, at least zero.
        beta: β, the share of its old value that a target keeps, in ``[0, 1]``.

    Example:
        >>> import noisebound as nb, torch
        >>> loss = nb.EarlyLearning(num_samples=1, num_classes=2)
        >>> value = loss(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([0]))
        >>> loss.targets
        tensor([[0.1500, 0.1500]])
    """

    hyperparameters = ("num_samples", "num_classes", "lam", "beta")
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

    def of_surprisal(self, surprisal: Tensor) -> Tensor:
        """Return cross-entropy."""
        return surprisal

    def with_memory(
        self, losses: BatchLosses, logits: Distributions, indices: Positions
    ) -> BatchLosses:
        """Return the losses plus ``λ log(1 - <t, q>)``.

        It is computed in log space, from ``1 - <t, q> = Σ_k (1 - t_k) q_k``.
        """
        log_q = F.log_softmax(logits, dim=1, dtype=losses.dtype)
        self.targets = self.targets.to(losses)
        if self.training:
            self._remember(log_q.detach().exp(), indices)
        distance = torch.logsumexp(torch.log1p(-self.targets[indices]) + log_q, dim=1)
        return losses + self.lam * distance

    def _remember(self, q: Tensor, indices: Tensor) -> None:
        updated = self.beta * self.targets[indices] + (1 - self.beta) * q
        self.targets.index_copy_(0, indices, updated.clamp(max=_LARGEST_TARGET))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        saved = state_dict.get(f"{prefix}targets")
        if saved is not None:  # torch would round what is loaded to the precision of a new memory
            self.targets = self.targets.to(saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *others)
