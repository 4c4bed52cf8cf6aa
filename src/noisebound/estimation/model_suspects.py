"""Which labels are wrong, by a trained model and the networks that judged its examples before."""

import math

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.estimation.estimate import NoiseEstimate
from noisebound.estimation.predictions import FEWEST_EXAMPLES, OutOfFold
from noisebound.estimation.suspects import (
    CLEAR,
    LEAST_PROBABILITY,
    Suspects,
    calibrated_by,
    in_order_of,
    suspects_by_evidence,
    suspects_of,
)
from noisebound.estimation.true_class import true_class_probabilities
from noisebound.losses import Loss

_MEMORIZED = 1 / 2
"""A model is not asked about its own labels if it has memorized so many of those that it could not
have predicted: a choice, made on the dev half of the tables and on `results/beyond`."""


def suspects_by_models(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    loss: Loss,
    transition: Float64[Tensor, "classes classes"],
    out_of_fold: OutOfFold | None,
    estimate: NoiseEstimate | None = None,
) -> Suspects:
    """Return the suspects by a trained model and, where there are any, by the networks before it.

    Args:
        probs: what the trained model predicts, for every example
        labels: observed
        loss: the loss that the model was trained by
        transition: ``T[noisy, true]``
        out_of_fold: predictions for some of the examples by networks that did not see them
        estimate: what is known of the noise; by the out-of-fold predictions if it is not given
    """
    found = suspects_of(_of_true_class(probs, loss, transition), labels, transition)
    if out_of_fold is None:
        return found
    at = out_of_fold.positions
    by_others = suspects_by_evidence(
        out_of_fold.probabilities, labels[at], out_of_fold.labels, estimate
    )
    if by_others.is_supported:
        score = found.score.clone()
        score[at] = (score[at] + by_others.suspects.score) / 2
        return Suspects(score, found.suggested)
    # A model that was bounded at a floor that is in doubt may have memorized what it judges. Of
    # validation, which it has not seen, its opinion counts, but not by a matrix that is in doubt.
    score, observed = found.score.clone(), _of_observed_label(probs, loss, transition)
    if len(at) < len(labels):
        score = _on_one_scale(observed, labels, out_of_fold, estimate)
    score[at] = by_others.suspects.score
    if _may_judge(observed, labels, out_of_fold):
        score[at] = _reordered(by_others.suspects.score, probs[at], labels[at], out_of_fold)
    return Suspects(score, found.suggested)


def _may_judge(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"], out_of_fold: OutOfFold
) -> bool:
    """True if a model predicts labels that it has not seen, and has not memorized its own.

    Args:
        probs: what the model predicts of the observed label, for every example
        labels: observed
        out_of_fold: predictions for the examples that the model was trained on, by networks that
            were not; the others are validation's
    """
    at, hits = out_of_fold.positions, probs.argmax(1) == labels
    is_unseen = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, at, False)
    count = int(is_unseen.sum())
    if count < FEWEST_EXAMPLES:
        return False
    unseen, own = hits[is_unseen].double().mean().item(), hits[at].double().mean().item()
    before = out_of_fold.are_hits.double().mean().item()
    error = math.sqrt(unseen * (1 - unseen) / count)
    return unseen >= before - CLEAR * error and own - unseen < _MEMORIZED * (1 - unseen)


def _reordered(
    score: Float64[Tensor, " n"],
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    out_of_fold: OutOfFold,
) -> Float64[Tensor, " n"]:
    """Return the same scores in the order of what a model and the networks before it say.

    Their probabilities are multiplied, as those of witnesses who do not know of each other.
    """
    logits = (
        probs.clamp(min=LEAST_PROBABILITY).log()
        + out_of_fold.probabilities.clamp(min=LEAST_PROBABILITY).log()
    )
    own = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    return in_order_of(own, score)


def _on_one_scale(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    out_of_fold: OutOfFold,
    estimate: NoiseEstimate | None,
) -> Float64[Tensor, " n"]:
    """Return the scores of all labels by calibrated predictions, out-of-fold where there are any.

    A trained model is surer than the networks that made the out-of-fold predictions. Each is
    calibrated by itself, or whatever the model alone has predicted would be the most suspect.
    """
    at, learned = out_of_fold.positions, labels.clone()
    learned[at] = out_of_fold.labels
    is_other = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, at, False)
    even = probs.clone()
    even[at] = calibrated_by(out_of_fold.probabilities, out_of_fold.labels)
    if int(is_other.sum()) >= FEWEST_EXAMPLES:  # fewer tell nothing of how sure to be
        even[is_other] = calibrated_by(probs[is_other], labels[is_other])
    return suspects_by_evidence(even, labels, learned, estimate).suspects.score


def _of_observed_label(
    probs: Float64[Tensor, "n classes"],
    loss: Loss,
    transition: Float64[Tensor, "classes classes"],
) -> Float64[Tensor, "n classes"]:
    """Return probabilities of the observed label, from what the loss has taught the model.

    A loss that corrects the noise teaches the true class; any other the observed label, as its
    noise model sees it (the paper's ``f``).
    """
    if loss.predicts_true_class:
        return probs @ transition.mT
    return probs if loss.noise_model is None else loss.noise_model.forward(probs)


def _of_true_class(
    probs: Float64[Tensor, "n classes"],
    loss: Loss,
    transition: Float64[Tensor, "classes classes"],
) -> Float64[Tensor, "n classes"]:
    """Return probabilities of the true class, from what the loss has taught the model."""
    if loss.predicts_true_class:
        return probs
    return true_class_probabilities(_of_observed_label(probs, loss, transition), transition)
