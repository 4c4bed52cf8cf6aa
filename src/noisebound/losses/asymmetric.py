r"""The asymmetric losses AGCE, AUL and AEL (Zhou et al., 2021).

Each is a function φ of ``q_y`` that is finite everywhere. If one class is likelier than the others
by the factor $\varphi'(0) / \varphi'(1)$, then the expected loss is least where that class has all
of the probability. Among classes that are closer than this, the best prediction divides the
probability.
"""

import math
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import check_above
from noisebound.losses.best_prediction import balanced_prediction, likeliest_vertex
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions


class AsymmetricGeneralizedCrossEntropy(LikelihoodLoss):
    """AGCE ``((a+1)^q - (a+q_y)^q) / q`` (Zhou et al., 2021).

    Args:
        a: shifts the probability away from zero; above 0, and 0.6 in Zhou et al. on CIFAR-10.
        q: the exponent, above 0, and 0.6 in Zhou et al.; from 1 on, the vertex of the likeliest
            class is always the best prediction.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.AsymmetricGeneralizedCrossEntropy(a=1.0, q=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, a: float = 0.6, q: float = 0.6, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.q = check_above("a", a, 0), check_above("q", q, 0)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(a+1)^q (1 - (1 - (1-q_y)/(a+1))^q) / q``."""
        largest = math.pow(self.a + 1, self.q) / self.q
        lost = torch.expm1(-surprisal) / (self.a + 1)
        return -largest * torch.expm1(self.q * torch.log1p(lost))

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return likeliest_vertex(p) if self.q >= 1 else balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        slope: NDArray[np.float64] = (self.a + q) ** (self.q - 1)
        return slope

    def hyperparameters(self) -> list[str]:
        """Return ``a`` and ``q`` as the repr shows them."""
        return [f"a={self.a:g}", f"q={self.q:g}"]


class AsymmetricUnhinged(LikelihoodLoss):
    """AUL ``((a-q_y)^p - (a-1)^p) / p`` (Zhou et al., 2021).

    Args:
        a: above 1, and 5.5 in Zhou et al. on CIFAR-10.
        p: the exponent, above 0, and 3 in Zhou et al.; up to 1, the vertex of the likeliest class
            is always the best prediction.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.AsymmetricUnhinged(a=2.0, p=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, a: float = 5.5, p: float = 3.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a, self.p = check_above("a", a, 1), check_above("p", p, 0)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(a-1)^p ((1 + (1-q_y)/(a-1))^p - 1) / p``."""
        least = math.pow(self.a - 1, self.p) / self.p
        lost = -torch.expm1(-surprisal) / (self.a - 1)
        return least * torch.expm1(self.p * torch.log1p(lost))

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return likeliest_vertex(p) if self.p <= 1 else balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        slope: NDArray[np.float64] = (self.a - 1 + rest) ** (self.p - 1)
        return slope

    def hyperparameters(self) -> list[str]:
        """Return ``a`` and ``p`` as the repr shows them."""
        return [f"a={self.a:g}", f"p={self.p:g}"]


class AsymmetricExponential(LikelihoodLoss):
    """AEL ``exp(-q_y / a)`` (Zhou et al., 2021).

    It is never zero: its least value is ``exp(-1/a)``.

    Args:
        a: above 0, and 2.5 in Zhou et al. on CIFAR-10.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb
        >>> round(nb.noise_bound(nb.AsymmetricExponential(a=2.5), 0.0, num_classes=10), 4)
        0.6703
    """

    def __init__(self, a: float = 2.5, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a = check_above("a", a, 0)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``exp(-q_y / a)``."""
        return torch.exp(-torch.exp(-surprisal) / self.a)

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the prediction of least expected loss."""
        return balanced_prediction(p, self._slope)

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        slope: NDArray[np.float64] = np.exp(-q / self.a) / self.a
        return slope

    def hyperparameters(self) -> list[str]:
        """Return ``a`` as the repr shows it."""
        return [f"a={self.a:g}"]
