"""The noise-pruned curriculum loss, which leaves out the examples with the highest loss."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.checks import check_within
from noisebound.errors import InvalidValueError
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Reduction


def choose_by_curriculum(
    losses: Float[Tensor, " examples"], threshold: Float[Tensor, ""]
) -> Bool[Tensor, " examples"]:
    """Return the mask of admitted examples (Lyu & Tsang, 2020, Algorithm 1).

    With the losses in ascending order and their running sums ``S_i``, example ``i`` is admitted if
    ``S_i ≤ C + 1 - i``, where ``C`` is the threshold.
    """
    order = losses.argsort()
    rank = torch.arange(1, len(losses) + 1, device=losses.device)
    admitted = losses[order].cumsum(0) <= threshold + 1 - rank
    return torch.zeros_like(admitted).scatter(0, order, admitted)


class Curriculum(LikelihoodLoss):
    """Cross-entropy of the examples that the noise-pruned curriculum admits (Lyu & Tsang, 2020).

    In a batch of ``n`` examples, ``e`` of them misclassified, the threshold is
    ``C = (1-ε)² n + (1-ε) e``. Examples that are left out have loss zero and do not count in the
    mean; if all are left out, the mean is zero. An example whose loss is NaN is never left out.

    Args:
        noise_rate: ε, the share of wrong labels, in ``[0, 1]``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> logits = torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
        >>> nb.Curriculum(noise_rate=0.3, reduction="none")(logits, torch.tensor([0, 0, 1]))
        tensor([0.0001, 0.0001, 0.0000])
    """

    def __init__(
        self, noise_rate: float, *, reduction: Reduction = "mean", check_finite: bool = False
    ) -> None:
        super().__init__(reduction=reduction, check_finite=check_finite)
        self.noise_rate = check_within("noise_rate", noise_rate, 0, 1, open_at_low=False)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return cross-entropy."""
        return surprisal

    def weighted_losses(
        self, logits: Tensor, labels: Tensor
    ) -> tuple[Float[Tensor, "batch *positions"], Float[Tensor, "batch *positions"]]:
        """Return losses and weights, both zero for the examples left out."""
        losses, weights = super().weighted_losses(logits, labels)
        counts = torch.ones_like(losses, dtype=torch.bool) if weights is None else weights > 0
        candidates = torch.where(counts, losses.detach(), torch.inf)
        threshold = self._threshold(logits, labels, counts)
        admitted = choose_by_curriculum(candidates.flatten(), threshold).view_as(counts)
        # A loss that is not a number counts, so that a training that has diverged shows it.
        admitted = admitted | losses.isnan()
        # If no example is admitted, the weights stay, so that the mean is zero and not 0/0.
        weights = torch.where(admitted.any(), admitted, counts).to(losses.dtype)
        return torch.where(admitted, losses, 0.0), weights

    def _threshold(self, logits: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        truth = labels.argmax(1) if labels.is_floating_point() else labels
        mistakes = ((logits.argmax(1) != truth) & counts).sum()
        kept_share = 1 - self.noise_rate
        return kept_share**2 * counts.sum() + kept_share * mistakes

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Raise an error: the loss of an example depends on the rest of its batch."""
        raise InvalidValueError(
            "Curriculum has no noise-bound, because which examples count depends on the rest of "
            "their batch; pass `bound` to BoundedLoss instead"
        )

    def hyperparameters(self) -> list[str]:
        """Return ε as the repr shows it."""
        return [f"noise_rate={self.noise_rate:g}"]
