"""Taylor-CE: the first terms of the Taylor series of cross-entropy, between MAE and CE."""

from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import check_count
from noisebound.losses.best_prediction import balanced_prediction, likeliest_vertex
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions
from noisebound.losses.mean_absolute_error import mean_absolute_error


class TaylorCrossEntropy(LikelihoodLoss):
    """Taylor cross-entropy ``Σ_{i=1}^t (1 - q_y)^i / i`` (Feng et al., 2020).

    With one term it is MAE, and with more and more terms it becomes cross-entropy.

    Args:
        order: t, the number of terms, at least one. Feng et al. choose it on validation data; two
            is the first order that is not MAE.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.TaylorCrossEntropy(order=2)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6250)
    """

    def __init__(self, order: int = 2, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.order = check_count("order", order)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``Σ_{i=1}^t (1 - q_y)^i / i``, by Horner's rule."""
        missing = mean_absolute_error(surprisal)
        total = torch.zeros_like(missing)
        for term in range(self.order, 0, -1):
            total = missing * (1 / term + total)
        return total

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return likeliest_vertex(p) if self.order == 1 else balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``Σ_{i=0}^{t-1} (1-q)^i``."""
        slope = np.ones_like(rest)
        for _ in range(self.order - 1):
            slope = 1 + rest * slope
        return slope

    def hyperparameters(self) -> list[str]:
        """Return the order as the repr shows it."""
        return [f"order={self.order}"]
