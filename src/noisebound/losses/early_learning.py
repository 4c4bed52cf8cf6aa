"""ELR: cross-entropy held to what the model believed early in training."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_non_negative, check_num_classes, check_within
from noisebound.losses.loss import Reduction
from noisebound.losses.remembering import RememberingLoss

_LARGEST_TARGET = 1 - 1e-4


class EarlyLearning(RememberingLoss):
    """``-log q_y + λ log(1 - <t, q>)`` with running targets ``t ← β t + (1-β) q``.

    Early-learning regularisation (Liu et al., 2020). The targets start at zero, are updated with
    each training batch before they are used, and carry no gradient. They stay below ``1 - 1e-4``,
    so that the regulariser has a floor; the reference implementation clamps the *predictions*
    there, which loses their gradient. In evaluation mode the targets rest, and without indices the
    loss is cross-entropy.

    Args:
        num_samples: size of the training set.
        num_classes: c.
        lam: λ, the weight of the regulariser.
        beta: β, how long the targets remember, in ``[0, 1]``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: refuse NaN and infinite logits.

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
        """Cross-entropy."""
        return surprisal

    def with_memory(
        self,
        losses: Float[Tensor, " batch"],
        logits: Float[Tensor, "batch classes"],
        indices: Int[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
        """Add ``λ log(1 - <t, q>)``, in log space: ``1 - <t, q> = Σ_k (1 - t_k) q_k``."""
        log_q = F.log_softmax(logits, dim=1, dtype=losses.dtype)
        self.targets = self.targets.to(logits.device)
        if self.training:
            self._remember(log_q.detach().exp(), indices)
        distance = torch.logsumexp(torch.log1p(-self.targets[indices]) + log_q, dim=1)
        return losses + self.lam * distance

    def _remember(self, q: Tensor, indices: Tensor) -> None:
        updated = self.beta * self.targets[indices] + (1 - self.beta) * q
        updated = updated.clamp(max=_LARGEST_TARGET).to(self.targets.dtype)
        self.targets.index_copy_(0, indices, updated)

    def hyperparameters(self) -> list[str]:
        """The memory's size and the two weights."""
        return [
            f"num_samples={self.num_samples}",
            f"num_classes={self.num_classes}",
            f"lam={self.lam:g}",
            f"beta={self.beta:g}",
        ]
