"""The spherical score, a proper loss that depends only on the direction of ``q``."""

from jaxtyping import Float
from torch import Tensor

from noisebound.losses.loss import Loss, Pick
from noisebound.noise_models import Identity


def spherical(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``-q_y / ‖q‖₂``."""
    q = log_q.exp()
    return -at(q) / q.square().sum(1, keepdim=True).sqrt()


class Spherical(Loss):
    """Spherical score ``-q_y / ‖q‖₂``. Its noise model is the identity, its entropy ``-‖p‖₂``.

    The arguments are those of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Spherical()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(-0.5000)
    """

    noise_model = Identity()

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``-q_y / ‖q‖₂``."""
        return spherical(log_q, at)
