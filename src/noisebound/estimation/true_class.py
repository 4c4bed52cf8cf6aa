"""Probabilities of the true class from those of the observed label."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

_ROUNDS = 50
_TOLERANCE = 1e-3  # of the log-likelihood of a row
_LONGEST_STEP = 16.0  # in rounds of EM, by which one step may be stretched
_START = 1e-3  # EM multiplies: a zero would stay one, and a tiny number grows slowly
_LEAST = 1e-12
_NUMBERS_AT_ONCE = 2**18  # 2 MB of float64, which stays in the processor's cache


def true_class_probabilities(
    noisy_probs: Float[Tensor, "n classes"], transition: Float64[Tensor, "classes classes"]
) -> Float64[Tensor, "n classes"]:
    """Return the probabilities that ``T`` turns into those of the observed label, or nearly so.

    This is ``T⁻¹ p`` if it is a distribution. If it has negative entries, EM finds the likeliest
    distribution from there.
    """
    inverse: Tensor = torch.linalg.pinv(transition)
    found = torch.empty(noisy_probs.shape, dtype=torch.float64)
    rows = max(1, _NUMBERS_AT_ONCE // noisy_probs.shape[1])
    for part, into in zip(torch.split(noisy_probs, rows), torch.split(found, rows), strict=True):
        into.copy_(_likeliest_causes(part.double(), transition, inverse))
    return found


def _likeliest_causes(
    noisy_probs: Float64[Tensor, "n classes"],
    transition: Float64[Tensor, "classes classes"],
    inverse: Float64[Tensor, "classes classes"],
) -> Float64[Tensor, "n classes"]:
    """Return the true-class probabilities of some rows; rows that have settled stay as they are.

    The log-likelihood of a row is at most ``max(gain) - 1`` below its maximum, where ``gain`` is
    the factor by which EM multiplies each probability. A row has settled when that is small.
    """
    exact = noisy_probs @ inverse.mT
    is_distribution = exact.amin(1, keepdim=True) >= 0
    probs = torch.where(is_distribution, exact, exact.clamp(min=_START))
    probs /= probs.sum(1, keepdim=True)
    moving = torch.arange(len(probs))
    now, observed = probs, noisy_probs
    for _ in range(_ROUNDS):
        gain = _gain(now, observed, transition)
        unsettled = gain.amax(1) > 1 + _TOLERANCE
        probs[moving[~unsettled]] = now[~unsettled]
        moving, observed = moving[unsettled], observed[unsettled]
        if not len(moving):
            return probs
        now = _stretched(now[unsettled], gain[unsettled], observed, transition)
    probs[moving] = now
    return probs


def _gain(probs: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    """Return the factors by which a round of EM multiplies the probabilities."""
    return (noisy_probs / (probs @ transition.mT).clamp_(min=_LEAST)) @ transition


def _stretched(probs: Tensor, gain: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    """Return the probabilities after two rounds of EM, extrapolated in the logarithms.

    EM takes thousands of rounds to approach an edge of the simplex. SQUAREM (Varadhan and Roland,
    2008) extrapolates its steps. A row keeps EM's two rounds if that does not raise its likelihood.
    """
    once = probs * gain
    second_gain = _gain(once, noisy_probs, transition)
    twice = once * second_gain
    step = gain.clamp(min=_LEAST).log()
    bend = second_gain.clamp(min=_LEAST).log() - step
    length = (once * step**2).sum(1, keepdim=True) / (once * bend**2).sum(1, keepdim=True)
    length = length.sqrt().clamp(1.0, _LONGEST_STEP)
    # With a length of one this is EM's own second round.
    log_further = 2 * (length - 1) * step + (length**2 - 1) * bend
    further = (twice.clamp(min=_LEAST).log() + log_further).softmax(1)
    pays = _log_likelihood(further, noisy_probs, transition) > _log_likelihood(
        twice, noisy_probs, transition
    )
    return torch.where(pays, further, twice)


def _log_likelihood(probs: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    expected = (probs @ transition.mT).clamp_(min=_LEAST)
    return (noisy_probs * expected.log_()).sum(1, keepdim=True)
