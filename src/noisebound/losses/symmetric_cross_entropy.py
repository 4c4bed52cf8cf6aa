"""SCE: cross-entropy plus a multiple of MAE."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.checks import check_non_negative
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions
from noisebound.noise_models import Saturating


def symmetric_cross_entropy(surprisal: Float[Tensor, "..."], A: float) -> Float[Tensor, "..."]:
    """Return ``-log q_y + A (1 - q_y)`` of ``-log q_y``."""
    return torch.sub(surprisal, torch.expm1(-surprisal), alpha=A)


class SymmetricCrossEntropy(LikelihoodLoss):
    """Symmetric cross-entropy ``-log q_y + A (1 - q_y)`` (Wang et al., 2019).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Saturating`.

    Args:
        A: weight of the MAE term, at least zero; the paper uses 8.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.SymmetricCrossEntropy(A=8.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(4.6931)
    """

    def __init__(
        self,
        A: float = 8.0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.A = check_non_negative("A", A)
        self.noise_model = Saturating(self.A)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``-log q_y + A (1 - q_y)``."""
        return symmetric_cross_entropy(surprisal, self.A)

    def hyperparameters(self) -> list[str]:
        """Return ``A`` as the repr shows it."""
        return [f"A={self.A:g}"]
