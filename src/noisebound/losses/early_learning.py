"""ELR: cross-entropy with a regularizer that keeps what the model predicted early in training."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_non_negative, check_num_classes, check_within
from noisebound.losses.loss import Reduction
from noisebound.losses.remembering import RememberingLoss

_LARGEST_TARGET = 1 - 1e-4  # the reference implementation's limit, there for predictions


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
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> loss = nb.EarlyLearning(num_samples=1, num_classes=2)
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
        *,
        reduction: Reduction = "mean",
        check_finite: bool = False,
    ) -> None:
        super().__init__(num_samples, reduction=reduction, check_finite=check_finite)
        self.require_num_classes(check_num_classes(num_classes))
        self.lam = check_non_negative("lam", lam)
        self.beta = check_within("beta", beta, 0, 1, open_at_low=False)
        self.register_buffer("targets", torch.zeros(self.num_samples, num_classes))

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return cross-entropy."""
        return surprisal

    def with_memory(
        self,
        losses: Float[Tensor, " batch"],
        logits: Float[Tensor, "batch classes"],
        indices: Int[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
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

    def hyperparameters(self) -> list[str]:
        """Return the size of the memory, λ and β as the repr shows them."""
        return [
            f"num_samples={self.num_samples}",
            f"num_classes={self.num_classes}",
            f"lam={self.lam:g}",
            f"beta={self.beta:g}",
        ]
