"""The noise-pruned curriculum loss, which leaves out the examples with the highest loss."""

from typing import Literal, TypeAlias, Unpack, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.checks import check_number
from noisebound.errors import InvalidValueError
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    Loss,
    LossOptions,
    PerExample,
    Pick,
)

BaseLoss: TypeAlias = Literal["hinge", "cross-entropy"]


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

    The threshold counts mistakes, so the base loss must be measured like them: Lyu & Tsang ask for
    an upper bound of the 0-1 loss and take the hinge. At the start of a training the hinge is about
    1 for each example. Cross-entropy is ``log c``, so that few examples are admitted, and the
    network never learns the classes whose examples are left out.

    Args:
        noise_rate: ε, the share of wrong labels, in ``[0, 1]``.
        base: ``"hinge"``, which is ``max(0, 1 - z_y + max_{k≠y} z_k)`` of the logits z, or
            ``"cross-entropy"``.

    Example:
        >>> import noisebound as nb, torch
        >>> logits = torch.tensor([[0.5, 0.0], [9.0, 0.0], [9.0, 0.0]])
        >>> nb.Curriculum(noise_rate=0.3, reduction="none")(logits, torch.tensor([0, 0, 1]))
        tensor([0.5000, 0.0000, 0.0000])
    """

    hyperparameters = ("noise_rate", "base")
    refused_options = ("ignore_index", "weight", "label_smoothing")

    def __init__(
        self,
        noise_rate: float,
        base: BaseLoss = "hinge",
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.noise_rate = check_number("noise_rate", noise_rate, "[0, 1]")
        if base not in get_args(BaseLoss):
            raise InvalidValueError(f"`base` must be 'hinge' or 'cross-entropy', got {base!r}")
        self.base = base

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return the base loss."""
        return hinge(log_q, at) if self.base == "hinge" else -at(log_q)

    def weighted_losses(self, logits: Tensor, labels: Tensor) -> tuple[PerExample, PerExample]:
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

    def entropy(self, p: Distributions) -> Entropies:
        """Raise an error: the loss of an example depends on the rest of its batch."""
        raise InvalidValueError(
            "Curriculum has no noise-bound, because which examples count depends on the rest of "
            "their batch; pass `bound` to BoundedLoss instead"
        )
