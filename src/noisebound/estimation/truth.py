r"""Stand-ins for the true labels, and the scores of predictions that follow from them.

``S[i, k]`` is 1 if the true class of example ``i`` is ``k``. Every score is a function of the
means of ``S[i, k]`` and of ``1[p_i = k] S[i, k]``, where ``p_i`` is the prediction, and its
standard error follows from its influence function. Three matrices can take the place of ``S``:

- the labels as they are, ``S[i, k] = 1[y_i = k]``, which give the noisy scores
- ``S[i, k] = T⁻¹[k, y_i]``, unbiased if the noise depends on the class alone
- a guess ``f``, corrected by ``m`` of ``n`` labels that were checked at random:
  ``S[i] = f_i + (n / m) (1[z_i = k] - f_i)`` for these, and ``f_i`` for the others. It is unbiased
  for any noise and any guess (Angelopoulos et al., 2023)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import one_hot

from noisebound.checks import ArrayLike, check_noise_rate, check_transition
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.estimate import UNPREDICTABLE, NoiseEstimate, estimate_noise
from noisebound.estimation.noise import GivenTransition, Noise
from noisebound.estimation.predictions import Labels, Matrix, Values, of_label
from noisebound.estimation.transitions import rate_of, with_rate
from noisebound.estimation.trusted import REACH, Trusted
from noisebound.noise_models import symmetric_transition

Truth: TypeAlias = Float64[Tensor, "n classes"]  # S in the formulas

_LEAST = 1e-9  # examples of a class, as a share of all


@dataclass(frozen=True)
class Score:
    """A score and its 95 % interval."""

    value: float
    interval: tuple[float, float]


class Estimated(NamedTuple):
    """Estimates, and their standard errors."""

    values: Float64[Tensor, " scores"]
    errors: Float64[Tensor, " scores"]


def noisy_truth(labels: Labels, num_classes: int) -> Truth:
    """Return the labels as they are."""
    return one_hot(labels, num_classes).double()


def checked_truth(guess: Truth, trusted: Trusted) -> Truth:
    """Return a guess of the truth, corrected by checked labels."""
    positions, true_labels, weights = trusted.positions, trusted.true_labels, trusted.weights
    parts = torch.full((len(positions),), 1.0 / len(positions)).double()
    parts = parts if weights is None else weights / weights.sum()
    error = noisy_truth(true_labels, guess.shape[1]) - guess[positions]
    return guess.index_add(0, positions, len(guess) * parts[:, None] * error)


def accuracy_of(predicted: Labels, truth: Truth) -> Estimated:
    """Return the accuracy."""
    return _mean_of(of_label(truth, predicted))


def difference_of(predicted: Labels, other: Labels, truth: Truth) -> Estimated:
    """Return how much higher the accuracy is than that of other predictions."""
    return _mean_of(of_label(truth, predicted) - of_label(truth, other))


def _mean_of(right: Values) -> Estimated:
    mean = right.mean()
    return Estimated(mean[None], _error(right[:, None] - mean, len(right)))


def recall_of(predicted: Labels, truth: Truth) -> Estimated:
    """Return the recall of each class; NaN without examples."""
    hits, shares = noisy_truth(predicted, truth.shape[1]), truth.mean(0)
    recall = torch.where(shares > _LEAST, (hits * truth).mean(0) / shares, torch.nan)
    influence = truth * (hits - recall) / shares
    return Estimated(recall, _error(influence, len(truth) * shares))


def macro_f1_of(predicted: Labels, truth: Truth) -> Estimated:
    """Return the mean F1 over the classes that are predicted or have examples."""
    hits = noisy_truth(predicted, truth.shape[1])
    total = hits.mean(0) + truth.mean(0)
    is_present = total > _LEAST
    hits, truth, total = hits[:, is_present], truth[:, is_present], total[is_present]
    f1 = 2 * (hits * truth).mean(0) / total
    influence = ((2 * hits * truth - f1 * (hits + truth)) / total).mean(1)
    return Estimated(f1.mean()[None], _error(influence[:, None], len(truth)))


def _error(influence: Float64[Tensor, "n scores"], examples: float | Tensor) -> Tensor:
    """Return the standard errors, which are positive even for scores of 0 and 1."""
    variance = influence.square().mean(0) / len(influence)
    return (variance + 1 / (torch.as_tensor(examples).double().clamp(min=0) + 2) ** 2).sqrt()


def hull(
    found: Sequence[Estimated], lowest: float = 0.0, *, is_known: bool = True
) -> list[Score | None]:
    """Return the middle ones of several estimates of scores, with intervals that hold them all.

    Each end is extended by its own sampling error. If nothing is known, the interval is everything.
    A score that does not exist is None.
    """
    values, errors = (torch.stack(each) for each in zip(*found, strict=True))
    (least, low), (most, high) = (
        (each.values, each.indices) for each in (values.min(0), values.max(0))
    )
    ends = (
        least - REACH * errors.gather(0, low[None])[0],
        most + REACH * errors.gather(0, high[None])[0],
    )
    if not is_known:
        ends = torch.full_like(least, lowest), torch.ones_like(least)
    rows = torch.stack([values[len(values) // 2], *ends], 1).clamp(lowest, 1.0)
    exists = torch.isfinite(values).all(0).tolist()
    return [
        Score(value, (low, high)) if is_there else None
        for (value, low, high), is_there in zip(rows.tolist(), exists, strict=True)
    ]


AnyNoise: TypeAlias = NoiseEstimate | Noise | ArrayLike

_LOW_SHARE, _HIGH_RATE = 0.5, 0.4
"""The interval begins at ``_LOW_SHARE`` of the correction for the lowest rate. It ends at the rate
that lies ``_HIGH_RATE`` of the way from the estimate to its upper end, at which the model would
make no mistakes. By the dev half of `results/scores`, such intervals hold the accuracy in 95 to
100 % of the cells."""
_MOST = 0.95  # of the rate at which labels carry no information; heuristic
_WORST_CONDITION = 1e3  # of a matrix; sampling errors then exceed any accuracy; heuristic

CLASS_ALONE = "if noise depends on the class alone"
_RIGHT = "if these labels are right"
UNINFORMATIVE = (
    "labels with so much noise carry no information about the true classes: the accuracy on true "
    "labels can be anything"
)
MEMORIZED = (
    "the predictions agree with more labels than can be right, so they repeat wrong labels: take "
    "predictions of a model that was not trained on these examples"
)


class NoiseRange(NamedTuple):
    """The noise as matrices: at the lowest rate, at the estimate, and at the highest rate."""

    low: Matrix
    middle: Matrix
    high: Matrix
    condition: str
    is_informative: bool

    @classmethod
    def of(cls, noise: AnyNoise, num_classes: int) -> "NoiseRange":
        if isinstance(noise, Noise) and noise.rate is None:
            because = noise.unknown_because or "it was not estimated"
            raise InvalidValueError(f"the noise is unknown ({because}): pass a rate as `noise`")
        found = (noise.of_labels or noise) if isinstance(noise, Noise) else noise
        if isinstance(found, NoiseEstimate):
            return cls._estimated(found)
        if isinstance(found, Noise):
            found = found.transition if isinstance(found, GivenTransition) else found.assumed_rate
        if np.ndim(found) == 0:
            rate = float(check_noise_rate(found, num_classes))
            matrix = symmetric_transition(rate, num_classes)
            is_informative = rate < _MOST * (num_classes - 1) / num_classes
            condition = UNPREDICTABLE if rate else _RIGHT
            return cls(matrix, matrix, matrix, condition, is_informative)
        matrix = check_transition(found).cpu()
        is_informative = torch.linalg.cond(matrix).item() < _WORST_CONDITION
        condition = _RIGHT if torch.equal(matrix, torch.eye(len(matrix))) else CLASS_ALONE
        return cls(matrix, matrix, matrix, condition, is_informative)

    @classmethod
    def _estimated(cls, found: NoiseEstimate) -> "NoiseRange":
        prior, (low, high) = found.class_prior, found.interval
        if found.condition == UNPREDICTABLE:
            high = found.noise_rate + _HIGH_RATE * (high - found.noise_rate)
        most = _MOST * rate_of(with_rate(found.transition, prior, 1.0), prior)
        matrices = [
            with_rate(found.transition, prior, min(rate, most))
            for rate in (low, found.noise_rate, high)
        ]
        conditions = [torch.linalg.cond(matrix).item() for matrix in matrices]
        is_informative = max(conditions) < _WORST_CONDITION and found.diagnostics.rejection is None
        low_matrix, middle, high_matrix = matrices
        return cls(low_matrix, middle, high_matrix, UNPREDICTABLE, is_informative)

    def truths(self, labels: Labels) -> list[Truth]:
        """Return the truth in the worst case, in the likeliest and in the best."""
        if not self.is_informative:
            return [noisy_truth(labels, len(self.middle))]
        if self.depends_on_class_alone:
            return [self.truth(labels)]
        middle = (1 + _LOW_SHARE) / 2  # between the shares at both ends
        matrices = {_LOW_SHARE: self.low, middle: self.middle, 1.0: self.high}
        return [_between(labels, matrix, share) for share, matrix in matrices.items()]

    def truth(self, labels: Labels, share: float = 1.0) -> Truth:
        """Return the truth after a part of the correction for independent noise."""
        return _between(labels, self.middle, 1.0 if self.depends_on_class_alone else share)

    @property
    def depends_on_class_alone(self) -> bool:
        return self.condition in (CLASS_ALONE, _RIGHT)

    def warnings(self, noisy_accuracy: float, examples: int) -> tuple[str, ...]:
        """Return the problems with scores that follow from the noise."""
        if not self.is_informative:
            return (UNINFORMATIVE,)
        most_right = float(self.low.diagonal().max())
        error = math.sqrt(most_right * (1 - most_right) / examples)
        return (MEMORIZED,) if noisy_accuracy > most_right + REACH * error else ()


def _between(labels: Labels, transition: Matrix, share: float) -> Truth:
    """Return labels between those as they are and those by the inverse of the matrix."""
    inverse: Tensor = torch.linalg.inv(transition)
    return noisy_truth(labels, len(transition)).lerp(inverse.T[labels], share)


def own_estimate(
    probs: Float[Tensor, "n classes"] | None, labels: Labels, checked: Trusted | None = None
) -> NoiseEstimate | float:
    """Return the noise by the predictions themselves, or only by the checked labels."""
    if probs is not None:
        return estimate_noise(probs, labels, trusted=checked)
    if checked is None:
        raise InvalidTypeError(
            "predicted classes alone do not show the noise: pass `noise`, or `trusted` labels, or "
            "probabilities as `predictions`"
        )
    is_wrong = (labels[checked.positions] != checked.true_labels).double()
    return float((is_wrong.sum() + 0.5) / (len(is_wrong) + 1))
