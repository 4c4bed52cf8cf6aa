"""SCE: cross-entropy plus a multiple of MAE."""

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.checks import ArrayLike, check_non_negative
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Reduction
from noisebound.noise_models import Saturating


def symmetric_cross_entropy(surprisal: Float[Tensor, "..."], A: float) -> Float[Tensor, "..."]:
    """Return ``-log q_y + A (1 - q_y)`` of ``-log q_y``."""
    return torch.sub(surprisal, torch.expm1(-surprisal), alpha=A)


class SymmetricCrossEntropy(LikelihoodLoss):
    """Symmetric cross-entropy ``-log q_y + A (1 - q_y)`` (Wang et al., 2019).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Saturating`.

    Args:
        A: weight of the MAE term, at least zero; the paper uses 8.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        weight: one weight per class, at least zero.
        label_smoothing: share of each label that is spread evenly over all classes, in ``[0, 1]``.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.SymmetricCrossEntropy(A=8.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(4.6931)
    """

    def __init__(
        self,
        A: float = 8.0,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        weight: ArrayLike | None = None,
        label_smoothing: float = 0.0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            reduction=reduction,
            ignore_index=ignore_index,
            weight=weight,
            label_smoothing=label_smoothing,
            check_finite=check_finite,
        )
        self.A = check_non_negative("A", A)
        self.noise_model = Saturating(self.A)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``-log q_y + A (1 - q_y)``."""
        return symmetric_cross_entropy(surprisal, self.A)

    def hyperparameters(self) -> list[str]:
        """Return ``A`` as the repr shows it."""
        return [f"A={self.A:g}"]
