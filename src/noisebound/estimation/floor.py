"""The measured floor: the least out-of-fold loss on noisy labels.

The expected loss on noisy labels is at least their entropy. So an out-of-fold loss is an upper
bound of the floor, for any noise and for classes that overlap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.bounds import AnyLoss
from noisebound.checks import ArrayLike, as_float64
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import Labels, Probs, check_labels
from noisebound.losses import CrossEntropy, Loss, RememberingLoss

LEAST_PROBABILITY = 1e-12

_GROUPS = 20
_SAMPLE = 20_000  # labels, enough to detect a gain of 0.01 nat
_SHARPEST = 8.0  # temperatures from 1/8 to 8 are tried


@dataclass(frozen=True, eq=False)
class Floor:
    """The least mean out-of-fold loss, and the divisor of the logits that gives it."""

    level: float
    standard_error: float
    temperature: float

    @property
    def cautious_level(self) -> float:
        """The level minus one standard error: a bound that is too high is worse than none."""
        return self.level - self.standard_error


def measured_floor(loss: AnyLoss, logits: ArrayLike, labels: ArrayLike) -> Floor:
    """Return the floor of any loss, from out-of-fold predictions and noisy labels.

    A model may be over- or underconfident for this loss, so the logits are divided by the
    temperature with the least loss.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``
        logits: out-of-fold logits, one row per example
        labels: the noisy labels

    Example:
        >>> import noisebound as nb
        >>> labels = torch.tensor([0] * 80 + [1] * 20)  # all inputs are equal
        >>> floor = measured_floor(nb.CrossEntropy(), torch.tensor([[3.0, 0.0]] * 100), labels)
        >>> f"{floor.level:.3f} {nb.entropy(nb.CrossEntropy(), [0.8, 0.2]):.3f}"
        '0.500 0.500'
    """
    if isinstance(loss, RememberingLoss):
        raise InvalidValueError(f"{type(loss).__name__} depends on its memory and has no floor")
    scores = as_float64(logits).detach().cpu()
    observed = check_labels(labels, scores, "logits")
    if not bool(torch.isfinite(scores).all()):
        raise InvalidValueError("logits must be finite, got NaN or infinite ones")

    def mean(logits: Tensor, labels: Labels) -> float:
        with torch.no_grad():
            if isinstance(loss, Loss):
                return float(loss.reduced("mean", logits, labels))
            return float(loss(logits, labels).mean())

    scale = _best_scale(lambda scale: mean(scale * scores, observed))
    scores = scale * scores
    # The spread between random groups gives the standard error.
    order = torch.randperm(len(observed), generator=torch.Generator().manual_seed(0))
    groups = order.tensor_split(min(_GROUPS, len(observed)))
    means = torch.tensor([mean(scores[group], observed[group]) for group in groups]).double()
    shares = torch.tensor([len(group) for group in groups]).double() / len(observed)
    level = float(means @ shares)
    variance = float(shares @ (means - level) ** 2) / (len(means) - 1)
    return Floor(level, math.sqrt(variance), 1 / scale)


def calibrated_by(probs: Probs, labels: Labels) -> Probs:
    """Return the probabilities at the temperature with the highest likelihood of the labels."""
    logits = probs.clamp(min=LEAST_PROBABILITY).log()
    sample = random_sample(len(labels))
    floor = measured_floor(CrossEntropy(), logits[sample], labels[sample])
    return (logits / floor.temperature).softmax(1)


def random_sample(count: int) -> Int64[Tensor, " m"]:
    """Return the positions of at most 20,000 random examples, the same ones in each call."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_SAMPLE]


def _best_scale(mean_at: Callable[[float], float]) -> float:
    from scipy.optimize import minimize_scalar  # takes longer to import than all of noisebound

    reach = math.log(_SHARPEST)
    found = minimize_scalar(
        lambda exponent: mean_at(math.exp(exponent)), bounds=(-reach, reach), method="bounded"
    )
    best = math.exp(float(found.x))
    return best if mean_at(best) < mean_at(1.0) else 1.0
