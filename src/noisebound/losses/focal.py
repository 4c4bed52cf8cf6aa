"""The focal loss, which gives less weight to examples that the model already predicts well."""

from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import check_non_negative
from noisebound.losses.best_prediction import balanced_prediction
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions


def focal(surprisal: Float[Tensor, "..."], gamma: float) -> Float[Tensor, "..."]:
    """Return ``(1 - q_y)^γ (-log q_y)`` of ``-log q_y``."""
    # For γ < 1 the derivative of the power is infinite at q_y = 1, where it is multiplied by zero.
    positive = surprisal.clamp(min=torch.finfo(surprisal.dtype).tiny)
    return (-torch.expm1(-positive)) ** gamma * surprisal


class Focal(LikelihoodLoss):
    """Focal loss ``(1 - q_y)^γ (-log q_y)`` (Lin et al., 2017).

    As a function of ``q_y`` it is convex, so its entropy is found exactly: the best prediction has
    the same ``p_k φ'(q_k)`` for all classes, and is less confident than ``p``.

    Args:
        gamma: γ, at least zero; Lin et al. use 2. At 0 the loss is cross-entropy.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Focal(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
        >>> round(nb.noise_bound(nb.Focal(gamma=2.0), noise_rate=0.4, num_classes=10), 3)
        1.13
    """

    def __init__(self, gamma: float = 2.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.gamma = check_non_negative("gamma", gamma)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(1 - q_y)^γ (-log q_y)``."""
        return focal(surprisal, self.gamma)

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(1-q)^(γ-1) ((1-q)/q - γ log q)``."""
        surprisal = np.log1p(rest / q)  # exact near q = 0 and near q = 1
        slope: NDArray[np.float64] = rest ** (self.gamma - 1) * (rest / q + self.gamma * surprisal)
        return slope

    def hyperparameters(self) -> list[str]:
        """Return γ as the repr shows it."""
        return [f"gamma={self.gamma:g}"]
