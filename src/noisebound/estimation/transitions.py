"""Transition matrices ``T[noisy, true]``: their estimators, and their inversion.

The estimators take predictions and labels:

- agreement, the default: count the labels of the most confident predictions. These are hardly ever
  wrong, so a label that differs is wrong. Noise must be as frequent there as elsewhere.
- anchor points: the predictions at an example that certainly belongs to a class are the label
  shares of that class.
- confident learning (Northcutt et al., 2021), computed by cleanlab.
"""

from importlib.util import find_spec

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from noisebound.errors import MissingExtraError
from noisebound.estimation.predictions import (
    NUMBERS_AT_ONCE,
    Labels,
    Matrix,
    PerClass,
    Probs,
    Values,
)
from noisebound.noise_models import symmetric_transition

SUREST = 0.2  # chosen on the sixteen settings of `results/beyond`; not tried elsewhere
_FEWEST = 20  # per predicted class: the standard error of a share is then at most 0.11
_LEAST = 1e-12
_SURE_PART = 0.3  # of a class of mean size; with ten classes, the usual quantile of 97 %

# For the probabilities of the true class
_STEPS = 50
_LIKELIHOOD_GAP = 1e-3  # of the log-likelihood of a row
_LONGEST_STEP = 16.0  # rounds of EM that one extrapolated step may replace
_START = 1e-3  # EM multiplies, so zeros would stay and tiny values would grow slowly


def agreement_transition(
    sureness: Float[Tensor, " n"], predicted: Labels, labels: Labels, num_classes: int
) -> Matrix:
    """Return the label shares where the model is surest, with less sampling error.

    Empirical Bayes shrinks the classes' noise rates to their mean, and the wrong labels of a class
    to an even spread, as far as chance explains the differences. Structured noise makes much larger
    differences, which remain.
    """
    chosen = surest_of_each_class(sureness, predicted, num_classes, SUREST)
    cells = labels[chosen] * num_classes + predicted[chosen]
    counts = torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes).double()
    totals = counts.sum(0)
    # For a class that is never predicted, assume no noise.
    right = torch.where(totals > 0, counts.diagonal() / totals.clamp(min=1), 1.0)
    rates = shrunk_to_mean(1 - right, totals)
    return rates * _among_wrong(counts) + torch.diag(1 - rates)


def surest_of_each_class(
    sureness: Float[Tensor, " n"], predicted: Labels, num_classes: int, share: float
) -> Int64[Tensor, " m"]:
    """Return the positions of the surest examples of each predicted class, at least a few."""
    order = sureness.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]  # class after class, the surest first
    counts = predicted.bincount(minlength=num_classes)
    wanted = torch.maximum((share * counts).round().long(), counts.clamp(max=_FEWEST))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[predicted[order]]
    return order[place < wanted[predicted[order]]]


def shrunk_to_mean(rates: Values, totals: Values) -> Values:
    """Shrink the rates to their mean; the variance is from DerSimonian and Laird (1986)."""
    known = totals > 0
    mean = (rates * totals).sum() / totals.sum()
    precision = totals[known] / (mean * (1 - mean)).clamp(min=_LEAST)
    excess = (precision * (rates[known] - mean) ** 2).sum() - (known.sum() - 1)
    scale = precision.sum() - (precision**2).sum() / precision.sum()
    between = (excess / scale.clamp(min=_LEAST)).clamp(min=0)
    kept = between / (between + 1 / precision)
    drawn = rates.clone()
    drawn[known] = mean + kept * (rates[known] - mean)
    return drawn


def _among_wrong(counts: Float64[Tensor, "observed predicted"]) -> Matrix:
    """Return the distribution of each class's wrong labels, shrunk to an even one (James-Stein)."""
    num_classes = len(counts)
    even = 1 / (num_classes - 1)
    wrong = counts.clone().fill_diagonal_(0)
    totals = wrong.sum(0)
    shares = wrong / totals.clamp(min=1)
    is_wrong = ~torch.eye(num_classes, dtype=torch.bool)
    # Pearson's statistic; by chance alone it is about its degrees of freedom.
    statistic = torch.where(is_wrong, (shares - even) ** 2, 0.0).sum(0) * totals / even
    chance = (num_classes - 2) / statistic.clamp(min=_LEAST)
    chance = torch.where(totals > 0, chance.clamp(max=1), 1.0)
    return torch.where(is_wrong, chance * even + (1 - chance) * shares, 0.0)


def anchor_transition(probs: Probs, labels: Labels) -> Matrix:
    """Return the matrix whose column ``k`` is the prediction at a sure example of class ``k``.

    The surest example may be an outlier, so the one at a high quantile is used (Liu and Tao, 2016;
    Patrini et al., 2017). Only the predictions matter.
    """
    quantile = 1 - _SURE_PART / probs.shape[1]
    anchors = probs.argsort(0)[round(quantile * (len(probs) - 1))]
    return probs[anchors].T.clone()


def confident_transition(probs: Probs, labels: Labels) -> Matrix:
    """Return the matrix by confident learning."""
    require_cleanlab()
    from cleanlab.count import compute_confident_joint, estimate_latent

    joint = compute_confident_joint(labels.numpy(), probs.numpy())
    _, noise_matrix, _ = estimate_latent(joint, labels.numpy())
    matrix = torch.as_tensor(noise_matrix, dtype=torch.float64)
    # A class without labels has a column of zeros; assume no noise.
    return torch.where(matrix.sum(0) > 0, matrix, torch.eye(len(matrix), dtype=torch.float64))


def require_cleanlab() -> None:
    """Refuse confident learning if cleanlab is not installed."""
    if find_spec("cleanlab") is None:
        raise MissingExtraError("confident learning", "cleanlab", "cleanlab")


def rate_of(transition: Matrix, prior: PerClass) -> float:
    """Return the noise rate of a matrix, given the share of each true class."""
    return float(prior @ (1 - transition.diagonal()))


def with_rate(transition: Matrix, prior: PerClass, rate: float) -> Matrix:
    """Return the matrix scaled to this rate, or less, so that the true class stays likeliest."""
    identity = torch.eye(len(transition), dtype=transition.dtype)
    before = rate_of(transition, prior)
    if before <= 0:  # the structure is unknown
        transition, before = symmetric_transition(0.5, len(identity)), 0.5
    wrong = (transition - identity) * (rate / before)
    off_diagonal = wrong.clone().fill_diagonal_(0).max(0).values
    # (1 - a·missing) ≥ a·greatest keeps the true class likeliest.
    most = 1 / (off_diagonal - wrong.diagonal()).clamp(min=1)
    return identity + wrong * most


def true_class_probabilities(noisy_probs: Float[Tensor, "n classes"], transition: Matrix) -> Probs:
    """Return ``q`` with ``T q ≈ p``: ``T⁻¹ p``, or if that is negative, the likeliest by EM."""
    inverse: Tensor = torch.linalg.pinv(transition)
    found = torch.empty(noisy_probs.shape, dtype=torch.float64)
    rows = max(1, NUMBERS_AT_ONCE // noisy_probs.shape[1])
    for part, into in zip(torch.split(noisy_probs, rows), torch.split(found, rows), strict=True):
        into.copy_(_likeliest_causes(part.double(), transition, inverse))
    return found


def _likeliest_causes(noisy_probs: Probs, transition: Matrix, inverse: Matrix) -> Probs:
    """Return true-class probabilities by EM, which multiplies each probability by a ``gain``.

    A row's log-likelihood is at most ``max(gain) - 1`` below its maximum; it has converged once
    that is small.
    """
    exact = noisy_probs @ inverse.mT
    is_distribution = exact.amin(1, keepdim=True) >= 0
    probs = torch.where(is_distribution, exact, exact.clamp(min=_START))
    probs /= probs.sum(1, keepdim=True)
    moving = torch.arange(len(probs))
    now, observed = probs, noisy_probs
    for _ in range(_STEPS):
        gain = _gain(now, observed, transition)
        unsettled = gain.amax(1) > 1 + _LIKELIHOOD_GAP
        probs[moving[~unsettled]] = now[~unsettled]
        moving, observed = moving[unsettled], observed[unsettled]
        if not len(moving):
            return probs
        now = _stretched(now[unsettled], gain[unsettled], observed, transition)
    probs[moving] = now
    return probs


def _gain(probs: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    return (noisy_probs / (probs @ transition.mT).clamp_(min=_LEAST)) @ transition


def _stretched(probs: Tensor, gain: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    """Return the probabilities after two rounds of EM, extrapolated in the logarithms (SQUAREM).

    EM alone needs thousands of rounds to approach an edge of the simplex (Varadhan and Roland,
    2008). Where extrapolation does not raise a row's likelihood, EM's two rounds are kept.
    """
    once = probs * gain
    second_gain = _gain(once, noisy_probs, transition)
    twice = once * second_gain
    step = gain.clamp(min=_LEAST).log()
    bend = second_gain.clamp(min=_LEAST).log() - step
    length = (once * step**2).sum(1, keepdim=True) / (once * bend**2).sum(1, keepdim=True)
    length = length.sqrt().clamp(1.0, _LONGEST_STEP)
    # With a length of one, this is EM's second round.
    log_further = 2 * (length - 1) * step + (length**2 - 1) * bend
    further = (twice.clamp(min=_LEAST).log() + log_further).softmax(1)

    def log_likelihood(q: Tensor) -> Tensor:
        expected = (q @ transition.mT).clamp_(min=_LEAST)
        return (noisy_probs * expected.log_()).sum(1, keepdim=True)

    return torch.where(log_likelihood(further) > log_likelihood(twice), further, twice)
