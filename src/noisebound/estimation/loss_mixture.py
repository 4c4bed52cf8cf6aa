"""The log-odds that labels are wrong, given one loss per example."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import Mask, Values

_ROUNDS = 100  # these three are the settings of scikit-learn's GaussianMixture
_TOLERANCE = 1e-3  # change of the mean log-likelihood
_LEAST_VARIANCE = 1e-6  # keeps the width positive if each distribution has a single value


def log_odds_of_losses(losses: Values, labels: ArrayLike) -> Values:
    """Return the log-odds that labels are wrong, by a mixture of two normal distributions.

    Both have the same width, so that a higher loss is always more suspect. EM starts at the best
    split of the losses in two, so that the result is deterministic.
    """
    if torch.as_tensor(labels).shape != losses.shape or len(losses) < 2:
        raise InvalidValueError(
            f"at least two losses are needed, and one label for each; got {len(losses)} losses"
        )
    if not bool(torch.isfinite(losses).all()):
        raise InvalidValueError("losses must be finite, got NaN or infinite ones")
    if bool((losses == losses[0]).all()):
        return torch.zeros_like(losses)  # no evidence
    share, _, _, variance = _fitted(losses, _upper_part(losses).double())
    low, high = torch.from_numpy(np.quantile(losses.numpy(), [0.1, 0.9]))
    before, likelihood = -torch.inf, torch.inf
    for _ in range(_ROUNDS):
        log_odds: Values = share.logit() + (high - low) / variance * (losses - (low + high) / 2)
        if abs(likelihood - before) < _TOLERANCE:
            break
        log_low = (-share).log1p() - (losses - low) ** 2 / (2 * variance) - variance.log() / 2
        before, likelihood = likelihood, (log_low + F.softplus(log_odds)).mean().item()
        share, low, high, variance = _fitted(losses, log_odds.sigmoid())
    return log_odds


def _fitted(losses: Values, is_high: Values) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the share of the upper distribution, both means, and the variance."""
    is_low = 1 - is_high
    low, high = ((part * losses).sum() / part.sum().clamp(min=1e-12) for part in (is_low, is_high))
    spread = is_low * (losses - low) ** 2 + is_high * (losses - high) ** 2
    return is_high.mean(), low, high, spread.mean() + _LEAST_VARIANCE


def _upper_part(losses: Values) -> Mask:
    """True for the losses above the split into two parts with the least variance within them."""
    ascending = losses.sort().values
    below = torch.arange(1, len(losses), dtype=torch.float64)
    sums = (ascending - ascending.mean()).cumsum(0)[:-1]
    between = sums**2 * (1 / below + 1 / (len(losses) - below))
    return losses > ascending[between.argmax()]
