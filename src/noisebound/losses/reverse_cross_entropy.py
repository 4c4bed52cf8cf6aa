"""RCE, the cross-entropy of the label under the prediction: a multiple of MAE."""

import math
from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from noisebound.checks import check_non_negative
from noisebound.losses.best_prediction import likeliest_vertex
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions
from noisebound.losses.mean_absolute_error import least_mean_absolute_error, mean_absolute_error

_SURPRISAL_OF_ZERO = -math.log(1e-4)  # the authors' code reads a label's zeros as 1e-4


class ReverseCrossEntropy(LikelihoodLoss):
    """Reverse cross-entropy ``-Σ_k q_k log 1[k=y] = A (1 - q_y)`` (Wang et al., 2019).

    The label's ``log 0`` is taken as ``-A``. SCE is the sum of this loss and cross-entropy.

    Args:
        A: at least zero; if not given, ``-log 1e-4 ≈ 9.21``, as in the authors' code.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.ReverseCrossEntropy(A=4.0), 0.4, num_classes=10), 6)
        1.6
    """

    def __init__(self, A: float = _SURPRISAL_OF_ZERO, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.A = check_non_negative("A", A)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``A (1 - q_y)``."""
        return self.A * mean_absolute_error(surprisal)

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the vertex of the likeliest class."""
        return likeliest_vertex(p)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``A (1 - max_k p_k)``."""
        return self.A * least_mean_absolute_error(p)

    def hyperparameters(self) -> list[str]:
        """Return ``A`` as the repr shows it."""
        return [f"A={self.A:g}"]
