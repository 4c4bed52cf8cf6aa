"""The measured floor: the least loss on noisy labels that a model was not trained on.

For any noise, a model's expected loss on noisy labels is at least their entropy. So an out-of-fold
loss is an upper bound of the floor, without a noise rate, a transition matrix or separable classes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.bounds import AnyLoss
from noisebound.checks import ArrayLike, as_float64
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import check_labels
from noisebound.losses import CrossEntropy, Loss, RememberingLoss

LEAST_PROBABILITY = 1e-12

_GROUPS = 20
_SAMPLE = 20_000  # labels: enough to see a gain of a hundredth of a nat
_SHARPEST = 8.0  # temperatures from 1/8 to 8 are tried


@dataclass(frozen=True, eq=False)
class Floor:
    """The least out-of-fold loss.

    Args:
        level: the mean loss
        standard_error: the standard error of that mean
        temperature: the logits were divided by this to reach it
    """

    level: float
    standard_error: float
    temperature: float

    @property
    def cautious_level(self) -> float:
        """The level less one standard error: a bound that is too high is worse than none."""
        return self.level - self.standard_error


def measured_floor(loss: AnyLoss, logits: ArrayLike, labels: ArrayLike) -> Floor:
    """Return the floor of any loss, from out-of-fold predictions and noisy labels.

    The model may have been trained with another loss and be over- or underconfident for this one,
    so the temperature with the least loss is used.

    Args:
        loss: a loss of noisebound, or any function or module of ``(logits, labels)`` that returns
            per-sample losses or their mean
        logits: on examples that the model was not trained on
        labels: their noisy labels

    Example:
        >>> import noisebound as nb
        >>> labels = torch.tensor([0] * 80 + [1] * 20)  # with inputs that are all the same
        >>> floor = measured_floor(nb.CrossEntropy(), torch.tensor([[3.0, 0.0]] * 100), labels)
        >>> f"{floor.level:.3f} {nb.entropy(nb.CrossEntropy(), [0.8, 0.2]):.3f}"
        '0.500 0.500'
    """
    if isinstance(loss, RememberingLoss):
        raise InvalidValueError(
            f"{type(loss).__name__} depends on its memory of the examples and has no floor"
        )
    scores = as_float64(logits).detach().cpu()
    observed = check_labels(labels, scores, "logits")
    if not bool(torch.isfinite(scores).all()):
        raise InvalidValueError("logits must be finite, got NaN or infinite ones")
    mean = _mean_of(loss)
    scale = _best_scale(lambda scale: mean(scale * scores, observed))
    scores = scale * scores
    means, sizes = _by_group(mean, scores, observed)
    level = float(means @ sizes / sizes.sum())
    variance = float((sizes / sizes.sum()) @ (means - level) ** 2) / (len(means) - 1)
    return Floor(level, math.sqrt(variance), 1 / scale)


def calibrated_by(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "n classes"]:
    """Return the probabilities at the temperature that predicts the labels best."""
    logits = probs.clamp(min=LEAST_PROBABILITY).log()
    sample = random_sample(len(labels))
    floor = measured_floor(CrossEntropy(), logits[sample], labels[sample])
    return (logits / floor.temperature).softmax(1)


def random_sample(count: int) -> Int64[Tensor, " m"]:
    """Return the positions of random examples, always the same ones, or of all if they are few."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_SAMPLE]


def _mean_of(loss: AnyLoss) -> Callable[[Tensor, Tensor], float]:
    def mean(logits: Tensor, labels: Tensor) -> float:
        with torch.no_grad():
            losses = (
                loss.reduced("mean", logits, labels)
                if isinstance(loss, Loss)
                else loss(logits, labels).mean()
            )
        return float(losses)

    return mean


def _best_scale(mean_at: Callable[[float], float]) -> float:
    from scipy.optimize import minimize_scalar  # takes longer to import than all of noisebound

    reach = math.log(_SHARPEST)
    found = minimize_scalar(
        lambda exponent: mean_at(math.exp(exponent)), bounds=(-reach, reach), method="bounded"
    )
    best = math.exp(float(found.x))
    return best if mean_at(best) < mean_at(1.0) else 1.0


def _by_group(
    mean: Callable[[Tensor, Tensor], float], logits: Tensor, labels: Int64[Tensor, " n"]
) -> tuple[Float64[Tensor, " groups"], Float64[Tensor, " groups"]]:
    """Return the mean losses of random groups, whose spread gives the error, and their sizes."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    groups = order.tensor_split(min(_GROUPS, len(labels)))
    means = [mean(logits[group], labels[group]) for group in groups]
    sizes = [len(group) for group in groups]
    return torch.tensor(means).double(), torch.tensor(sizes).double()
