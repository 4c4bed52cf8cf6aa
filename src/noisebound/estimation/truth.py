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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import one_hot

from noisebound.estimation.predictions import Labels, Values, of_label
from noisebound.estimation.trusted import REACH, Trusted

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
