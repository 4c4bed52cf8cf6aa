"""Which labels are wrong by their losses alone: a mixture of two normal distributions."""

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from noisebound.checks import ArrayLike
from noisebound.errors import InvalidValueError

_LEAST = 1e-12


def log_odds_of_losses(losses: Float64[Tensor, " n"], labels: ArrayLike) -> Float64[Tensor, " n"]:
    """Return the log-odds that labels are wrong, by a mixture of two normal distributions.

    The upper one is of the losses of wrong labels. Both have the same width, so that a higher loss
    is always more suspect.
    """
    if torch.as_tensor(labels).shape != losses.shape or len(losses) < 2:
        raise InvalidValueError(
            f"losses and labels must be as many, and at least two; got {len(losses)}"
        )
    if not bool(torch.isfinite(losses).all()):
        raise InvalidValueError("losses must be finite, got NaN or infinite ones")
    if bool((losses == losses[0]).all()):
        return torch.zeros_like(losses)  # nothing to tell them apart by
    log_joint = _two_normal_distributions(losses)
    return log_joint[:, 1] - log_joint[:, 0]


# The settings of scikit-learn's GaussianMixture, which gives the same result from the same start.
_MIXTURE_ROUNDS = 100
_MIXTURE_TOLERANCE = 1e-3  # change of the mean log-likelihood
_LEAST_VARIANCE = 1e-6  # keeps the width positive where each distribution has one value only


def _two_normal_distributions(losses: Float64[Tensor, " n"]) -> Float64[Tensor, "n two"]:
    """Return the log-density of each loss under the lower and the upper distribution, by EM.

    EM starts at the best split of the losses in two, which has a closed form, so that the same
    losses always give the same result.
    """

    def fitted(shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        counts = shares.sum(0).clamp(min=_LEAST)
        means = (shares * losses[:, None]).sum(0) / counts
        spread = (shares * (losses[:, None] - means) ** 2).sum() / len(losses)
        return counts / counts.sum(), means, spread + _LEAST_VARIANCE

    is_high = _upper_part(losses).double()
    weights, _, variance = fitted(torch.stack([1 - is_high, is_high], dim=1))
    means = torch.from_numpy(np.quantile(losses.numpy(), [0.1, 0.9]))
    before = -torch.inf
    for _ in range(_MIXTURE_ROUNDS):
        log_joint = _log_joint(losses, weights, means, variance)
        likelihood = log_joint.logsumexp(1).mean().item()
        weights, means, variance = fitted(log_joint.softmax(1))
        if abs(likelihood - before) < _MIXTURE_TOLERANCE:
            break
        before = likelihood
    order = means.argsort()
    return _log_joint(losses, weights[order], means[order], variance)


def _log_joint(losses: Tensor, weights: Tensor, means: Tensor, variance: Tensor) -> Tensor:
    distance = (losses[:, None] - means) ** 2 / (2 * variance)
    return weights.log() - distance - variance.log() / 2


def _upper_part(losses: Float64[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """True for the losses above the split into two parts with the least variance within them."""
    ascending = losses.sort().values
    below = torch.arange(1, len(losses), dtype=torch.float64)
    sums = (ascending - ascending.mean()).cumsum(0)[:-1]
    between = sums**2 * (1 / below + 1 / (len(losses) - below))
    return losses > ascending[between.argmax()]
