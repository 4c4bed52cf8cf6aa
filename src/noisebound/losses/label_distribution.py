"""LDR-KL, the label-distributionally robust loss: a soft maximum of margins."""

import math
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_above, check_non_negative
from noisebound.losses.best_prediction import balanced_prediction
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions, Pick
from noisebound.losses.mean_absolute_error import mean_absolute_error


class LabelDistributionallyRobust(LikelihoodLoss):
    """LDR-KL ``λ log((1/c) Σ_k exp((z_k - z_y + m 1[k≠y]) / λ))`` of logits z (Zhu et al., 2023).

    It is a function of the softmax at temperature λ: with its probability ``q_y`` of the label the
    loss is ``λ (-log q_y + log(q_y + exp(m/λ) (1-q_y)) - log c)``. Without a margin it is λ times
    cross-entropy at that temperature, minus ``λ log c``. The authors also normalize the logits;
    that belongs into the network.

    Args:
        lam: λ, the temperature, above 0; 1 as in public copies of the authors' code, of
            which one has 10.
        margin: m, at least zero; 0.1 as in these copies.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.LabelDistributionallyRobust(margin=0.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.)
    """

    def __init__(
        self, lam: float = 1.0, margin: float = 0.1, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        self.lam = check_above("lam", lam, 0)
        self.margin = check_non_negative("margin", margin)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the loss without ``-λ log c``, of the surprisal at temperature λ."""
        raised = math.expm1(self.margin / self.lam) * mean_absolute_error(surprisal)
        return self.lam * (surprisal + torch.log1p(raised))

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return the loss of ``q``, at temperature λ."""
        tempered = F.log_softmax(log_q / self.lam, dim=1)
        return super().formula(tempered, at) - self._least(log_q.shape[1])

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """Return the loss of each example."""
        return super().losses_at_labels(logits / self.lam, labels) - self._least(logits.shape[1])

    def best_prediction(
        self, p: Float[Tensor, "batch classes"]
    ) -> Float[Tensor, "batch classes"] | None:
        """Return the best prediction at temperature λ; None where the loss is not convex in it."""
        if self.margin > self.lam * math.log(2):
            return None
        return balanced_prediction(p, self._slope)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``min_q p · L(q)``, searched if the margin is above ``λ log 2``."""
        if self.best_prediction(p[:1]) is None:
            return super().entropy(p)
        return super().entropy(p) - self._least(p.shape[1])

    def _slope(self, q: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``λ e / (q (e - (e-1) q))`` with ``e = exp(m/λ)``."""
        raised = math.exp(self.margin / self.lam)
        slope: NDArray[np.float64] = self.lam * raised / (q * (1 + (raised - 1) * rest))
        return slope

    def _least(self, num_classes: int) -> float:
        """Return ``λ log c``, by which the mean in the formula lowers the loss."""
        return self.lam * math.log(num_classes)

    def hyperparameters(self) -> list[str]:
        """Return λ and the margin as the repr shows them."""
        return [f"lam={self.lam:g}", f"margin={self.margin:g}"]
