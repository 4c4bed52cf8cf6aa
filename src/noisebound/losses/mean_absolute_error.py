"""MAE, which is robust to symmetric noise and learns slowly."""

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.losses.best_prediction import likeliest_vertex
from noisebound.losses.likelihood import LikelihoodLoss


def mean_absolute_error(surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``1 - q_y`` of ``-log q_y``."""
    return -torch.expm1(-surprisal)


def least_mean_absolute_error(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Return ``min_q p · (1 - q) = 1 - max_k p_k``, reached by predicting the likeliest class."""
    return 1 - p.amax(-1)


class MeanAbsoluteError(LikelihoodLoss):
    """Mean absolute error ``1 - q_y``, half the L1 distance between ``q`` and the label.

    Whatever the noise, it is least at a vertex of the simplex, so no noise model makes it a proper
    loss. Its entropy is the Bayes risk ``1 - max_k p_k``, and its noise-bound is the noise rate.

    The arguments are those of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb
        >>> nb.noise_bound(nb.MeanAbsoluteError(), noise_rate=0.4, num_classes=10)
        0.4
    """

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``1 - q_y``."""
        return mean_absolute_error(surprisal)

    def best_prediction(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the vertex of the likeliest class."""
        return likeliest_vertex(p)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``1 - max_k p_k``."""
        return least_mean_absolute_error(p)
