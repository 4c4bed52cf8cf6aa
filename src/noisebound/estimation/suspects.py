"""Which labels are wrong: the probability of each, and what the label should be instead."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, as_float64, check_transition
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.estimate import estimate_noise
from noisebound.estimation.labels import check_labels, check_predictions
from noisebound.estimation.out_of_fold import OutOfFold
from noisebound.losses import Loss

_SCORE_LIMIT = 20.0  # log-odds of one in 500 million; no model knows that much
_UNFORESEEN = 0.02  # of the labels may be wrong in ways that the transition matrix does not know
_ROUNDS = 50
_TOLERANCE = 1e-3  # of the log-likelihood of a row
_LONGEST_STEP = 16.0  # in rounds of EM, by which one step may be stretched
_START = 1e-3  # EM multiplies: a zero would stay one, and a tiny number grows slowly
_LEAST = 1e-12
_NUMBERS_AT_ONCE = 2**18  # 2 MB of float64, which stays in the processor's cache


@dataclass(frozen=True, eq=False)
class Suspects:
    """How suspect each label is.

    Args:
        score: the log-odds that the label is wrong
        suggested: the likeliest class other than the label; None where only losses were known
    """

    score: Float64[Tensor, " n"]
    suggested: Int64[Tensor, " n"] | None

    @property
    def probability(self) -> Float64[Tensor, " n"]:
        """The probability that the label is wrong."""
        return self.score.sigmoid()

    @property
    def ranking(self) -> Int64[Tensor, " n"]:
        """The positions of the examples, the most suspect first."""
        return self.score.argsort(descending=True, stable=True)

    def without(self, is_trusted: Bool[Tensor, " n"]) -> "Suspects":
        """Return the same, where trusted labels are as little suspect as any label can be."""
        return Suspects(self.score.masked_fill(is_trusted, -_SCORE_LIMIT), self.suggested)


def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
) -> Suspects:
    """Return how likely each label is wrong.

    With probabilities ``q`` of the true class, Bayes' rule gives the probability that the label
    ``y`` is right: ``T[y, y] q_y / Σ_k T[y, k] q_k``.

    Args:
        probs_or_losses: class probabilities, one row per example, by a model that has not memorized
            the labels: out-of-fold, or from a bounded training. Or one loss per example, which is
            higher for wrong labels: then there is nothing to suggest.
        labels: observed class indices
        transition: ``T[noisy, true]``; estimated if not given
        corrected: whether the probabilities are those of the true class, as a forward-corrected
            loss trains them to be; else they are taken for those of the observed label

    Example:
        >>> probs = torch.tensor([[0.9, 0.1]] * 50 + [[0.1, 0.9]] * 50)
        >>> labels = torch.tensor([0] * 49 + [1] * 51)  # the 50th looks like class 0
        >>> suspects = find_suspects(probs, labels)
        >>> suspects.ranking[0].item(), suspects.suggested[49].item()
        (49, 0)
    """
    given = torch.as_tensor(probs_or_losses).detach().cpu()
    if given.ndim == 1:
        if transition is not None or corrected:
            raise InvalidTypeError(
                "transition and corrected apply to probabilities, and these are losses"
            )
        return _suspects_of_losses(as_float64(given), labels)
    probs = check_predictions(given)
    observed = check_labels(labels, probs, "probs")
    matrix = (
        estimate_noise(probs, observed).transition
        if transition is None
        else check_transition(transition).cpu()
    )
    if len(matrix) != probs.shape[1]:
        raise InvalidValueError(
            f"transition is of {len(matrix)} classes, probs are of {probs.shape[1]}"
        )
    true_probs = probs.double() if corrected else true_class_probabilities(probs, matrix)
    return suspects_of(true_probs, observed, matrix)


def suspects_of(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    transition: Float64[Tensor, "classes classes"],
) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the true class."""
    num_classes = len(transition)
    others = 1 - torch.eye(num_classes, dtype=torch.float64)
    foreseen = (1 - _UNFORESEEN) * transition + _UNFORESEEN / (num_classes - 1) * others
    likelihood = (foreseen / foreseen.sum(0))[labels] * probs  # [example, true class]
    right = likelihood.gather(1, labels[:, None]).squeeze(1)
    wrong = likelihood.scatter(1, labels[:, None], 0)
    score = wrong.sum(1).clamp(min=1e-300).log() - right.clamp(min=1e-300).log()
    return Suspects(score.clamp(-_SCORE_LIMIT, _SCORE_LIMIT), wrong.argmax(1))


def suspects_by_models(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    loss: Loss,
    transition: Float64[Tensor, "classes classes"],
    out_of_fold: OutOfFold | None,
    out_of_fold_transition: Float64[Tensor, "classes classes"] | None = None,
) -> Suspects:
    """Return the suspects by a trained model and, where there are any, by the networks before it.

    Args:
        probs: what the trained model predicts, for every example
        labels: observed
        loss: the loss that the model was trained by
        transition: ``T[noisy, true]``
        out_of_fold: predictions for some of the examples by networks that did not see them
        out_of_fold_transition: the matrix of the labels that those networks learned, where it is
            another, as classes had weights in the training
    """
    found = suspects_of(_of_true_class(probs, loss, transition), labels, transition)
    if out_of_fold is None:
        return found
    at = out_of_fold.positions
    others = transition if out_of_fold_transition is None else out_of_fold_transition
    observed = true_class_probabilities(out_of_fold.probabilities, others)
    by_others = suspects_of(observed, labels[at], others)
    score = found.score.clone()
    score[at] = (score[at] + by_others.score) / 2
    return Suspects(score, found.suggested)


def _of_true_class(
    probs: Float64[Tensor, "n classes"],
    loss: Loss,
    transition: Float64[Tensor, "classes classes"],
) -> Float64[Tensor, "n classes"]:
    """Return probabilities of the true class, from what the loss has taught the model to predict.

    A loss that corrects the noise teaches the true class; any other the observed label, as its
    noise model sees it (the paper's ``f``).
    """
    if loss.predicts_true_class:
        return probs
    observed = probs if loss.noise_model is None else loss.noise_model.forward(probs)
    return true_class_probabilities(observed, transition)


def true_class_probabilities(
    noisy_probs: Float[Tensor, "n classes"], transition: Float64[Tensor, "classes classes"]
) -> Float64[Tensor, "n classes"]:
    """Return the probabilities that ``T`` turns into those of the observed label, or nearly so.

    ``T⁻¹ p`` where that is a distribution. Where it has negative entries, the likeliest one is
    sought from there on, by EM.
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
    """Return the true-class probabilities of some rows; the rows that have settled are left alone.

    The log-likelihood of a row is at most ``max(gain) - 1`` below the highest one, where ``gain``
    is the factor by which EM multiplies each probability. A row has settled when that is small.
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
    """Return the probabilities after two rounds of EM, continued as far as the rounds point.

    EM takes thousands of rounds to come near an edge of the simplex. SQUAREM (Varadhan and Roland,
    2008) continues its steps, here in the logarithms. Where that does not pay, EM's rounds stay.
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


def _suspects_of_losses(losses: Float64[Tensor, " n"], labels: ArrayLike) -> Suspects:
    """Rate labels by a mixture of two normal distributions, the upper one of wrong labels' losses.

    Both have the same width, so that a higher loss is always more suspect.
    """
    if torch.as_tensor(labels).shape != losses.shape or len(losses) < 2:
        raise InvalidValueError(
            f"losses and labels must be as many, and at least two; got {len(losses)}"
        )
    if not bool(torch.isfinite(losses).all()):
        raise InvalidValueError("losses must be finite, got NaN or infinite ones")
    if bool((losses == losses[0]).all()):
        return Suspects(torch.zeros_like(losses), None)  # nothing to tell them apart by
    log_joint = _two_normal_distributions(losses)
    return Suspects(log_joint[:, 1] - log_joint[:, 0], None)


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
