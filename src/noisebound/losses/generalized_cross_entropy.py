"""GCE, which lies between cross-entropy (a → 0) and MAE (a = 1)."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.checks import check_within
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import LossOptions
from noisebound.losses.mean_absolute_error import least_mean_absolute_error
from noisebound.noise_models import Power


def generalized_cross_entropy(surprisal: Float[Tensor, "..."], a: float) -> Float[Tensor, "..."]:
    """Return ``(1 - q_y^a) / a`` of ``-log q_y``, accurate even if ``q_y`` is near one.

    For ``x ≤ 0``, this ELU is ``expm1(a x) / a`` in one kernel instead of three. It is what
    ``torch.celu(x, 1/a)`` calls, whose derivative rounds ``1/a`` to float32 on the way.
    """
    scaled: Tensor = torch.ops.aten.elu(-surprisal, 1 / a, 1.0, a)
    return -scaled


class GeneralizedCrossEntropy(LikelihoodLoss):
    """Generalized cross-entropy ``(1 - q_y^a) / a`` (Zhang & Sabuncu, 2018).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Power`.

    Args:
        a: exponent in ``(0, 1]``; the paper uses 0.4. At 1 the loss is MAE and has no noise model.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.GeneralizedCrossEntropy(a=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(
        self,
        a: float = 0.4,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.a = check_within("a", a, 0, 1, open_at_low=True)
        self.noise_model = Power(self.a) if self.a < 1 else None

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(1 - q_y^a) / a``."""
        return generalized_cross_entropy(surprisal, self.a)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``p · L(f⁻¹(p))``, or the entropy of MAE if ``a`` is 1."""
        return least_mean_absolute_error(p) if self.noise_model is None else super().entropy(p)

    def hyperparameters(self) -> list[str]:
        """Return ``a`` as the repr shows it."""
        return [f"a={self.a:g}"]
