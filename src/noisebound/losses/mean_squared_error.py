"""MSE, the Brier score: a proper loss."""

from jaxtyping import Float
from torch import Tensor

from noisebound.losses.loss import Loss, Pick
from noisebound.noise_models import Identity


def mean_squared_error(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``Σ_k (q_k - 1[k=y])² = Σ_k q_k² - 2 q_y + 1``."""
    q = log_q.exp()
    return q.square().sum(1, keepdim=True) - 2 * at(q) + 1


class MeanSquaredError(Loss):
    """Mean squared error ``Σ_k (q_k - 1[k=y])²``, the Brier score.

    Its noise model is the identity, its entropy ``1 - Σ_k p_k²``. For class probabilities ``t`` it
    is the expected loss, ``Σ_k (q_k - t_k)²`` plus a constant.

    The arguments are those of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.MeanSquaredError()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    noise_model = Identity()

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``Σ_k q_k² - 2 q_y + 1``."""
        return mean_squared_error(log_q, at)
