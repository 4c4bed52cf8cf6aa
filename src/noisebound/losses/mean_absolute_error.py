"""MAE, robust to symmetric noise and slow to learn."""

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.losses.likelihood import LikelihoodLoss


def mean_absolute_error(surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """``1 - q_y`` of ``-log q_y``."""
    return -torch.expm1(-surprisal)


def least_mean_absolute_error(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """``min_q p · (1 - q) = 1 - max_k p_k``: all on the likeliest class."""
    return 1 - p.amax(-1)


class MeanAbsoluteError(LikelihoodLoss):
    """``1 - q_y``, half the L1 distance of ``q`` from the label.

    It is least at a vertex whatever the noise, so no noise model turns it into a proper loss; its
    entropy is the Bayes risk ``1 - max_k p_k``, and its noise-bound the noise rate itself.

    The arguments are those of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb
        >>> nb.noise_bound(nb.MeanAbsoluteError(), noise_rate=0.4, num_classes=10)
        0.4
    """

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``1 - q_y``."""
        return mean_absolute_error(surprisal)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """``1 - max_k p_k``."""
        return least_mean_absolute_error(p)
