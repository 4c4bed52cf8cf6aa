"""The weighted Jensen-Shannon divergence of label and prediction, between CE and MAE."""

import math
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import check_within
from noisebound.errors import InvalidValueError
from noisebound.losses.best_prediction import balanced_prediction
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions
from noisebound.losses.mean_absolute_error import mean_absolute_error


def jensen_shannon(surprisal: Float[Tensor, "..."], label_weight: float) -> Float[Tensor, "..."]:
    """Return ``(S(π e_y + (1-π) q) - (1-π) S(q)) / Z`` of ``-log q_y``, S being Shannon's entropy.

    The terms of the other classes are the same in both entropies, up to ``log (1-π)``. So the
    divergence depends on ``q_y`` alone.
    """
    weight = 1 - label_weight
    log_weight = math.log1p(-label_weight)
    missing = mean_absolute_error(surprisal)
    blended = (1 - weight * missing) * torch.log1p(-weight * missing)
    own = weight * torch.exp(-surprisal) * surprisal
    return (blended + own + weight * log_weight * missing) / (weight * log_weight)


class JensenShannon(LikelihoodLoss):
    """Weighted Jensen-Shannon divergence of label and prediction (Englesson & Azizpour, 2021).

    ``JS_π = (S(π e_y + (1-π) q) - (1-π) S(q)) / Z``, with Shannon's entropy S, the label's vertex
    ``e_y`` and ``Z = -(1-π) log(1-π)``. It becomes cross-entropy as π goes to 0 and MAE as π goes
    to 1. For class probabilities it is the expected loss over the classes. The authors' generalized
    divergence of several predictions per example needs augmented copies of the data; with one
    prediction it is this loss.

    Args:
        label_weight: π, the weight of the label, in ``(0, 1)``; 0.5 is the ordinary divergence.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.JensenShannon()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6226)
    """

    def __init__(self, label_weight: float = 0.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.label_weight = check_within("label_weight", label_weight, 0, 1, open_at_low=True)
        if self.label_weight == 1:
            raise InvalidValueError(
                "`label_weight` must be below 1, where the loss becomes MAE: use MeanAbsoluteError"
            )

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the divergence."""
        return jensen_shannon(surprisal, self.label_weight)

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``log(1 + π / ((1-π) q)) / -log(1-π)``."""
        odds = self.label_weight / (1 - self.label_weight)
        slope: NDArray[np.float64] = np.log1p(odds / q) / -math.log1p(-self.label_weight)
        return slope

    def hyperparameters(self) -> list[str]:
        """Return π as the repr shows it."""
        return [f"label_weight={self.label_weight:g}"]
