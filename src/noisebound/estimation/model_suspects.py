"""Suspects by a trained model together with out-of-fold predictions."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.estimation.estimate import NoiseEstimate
from noisebound.estimation.floor import LEAST_PROBABILITY, calibrated_by
from noisebound.estimation.predictions import (
    FEWEST_EXAMPLES,
    Labels,
    Matrix,
    OutOfFold,
    Probs,
    of_label,
)
from noisebound.estimation.suspects import (
    CLEAR,
    Suspects,
    in_order_of,
    suspects_by_evidence,
    suspects_of,
    suspects_through,
)
from noisebound.losses import Loss

_MEMORIZED = 1 / 2
"""A model does not judge labels if it has memorized at least this share of those that it could not
predict. Chosen on the first half of the tables in `benchmarks/`."""


def suspects_by_models(
    probs: Probs,
    labels: Labels,
    loss: Loss,
    transition: Matrix,
    out_of_fold: OutOfFold | None,
    estimate: NoiseEstimate | None = None,
    *,
    is_network: bool = True,
) -> Suspects:
    """Return the suspects by out-of-fold predictions, and by a trained model where it helps.

    Training and validation examples are rated by the same out-of-fold evidence. If the labels
    support the estimated noise, the log-odds of the model and of the evidence are averaged.
    Otherwise the model changes at most the ranking, separately within the training examples and the
    validation examples: it has seen the labels of the former, so their scores are not comparable.

    Args:
        probs: class probabilities by the trained model, for every example
        labels: the observed labels
        loss: the loss of the training
        transition: ``T[noisy, true]``
        out_of_fold: out-of-fold predictions; if None, only the model rates the labels
        estimate: the noise; by default estimated from the out-of-fold predictions
        is_network: False if the model has other learners, which reproduce the labels that they were
            trained on: it rates no label that has out-of-fold predictions
    """
    observed = _of_observed_label(probs, loss, transition)
    if loss.predicts_true_class:
        by_model = suspects_of(probs, labels, transition)
    else:
        by_model = suspects_through(observed, labels, transition)
    if out_of_fold is None:
        return by_model
    judged, learned = _completed(observed, labels, out_of_fold.with_validation)
    evidence = suspects_by_evidence(judged, labels, learned, estimate)
    if not is_network:
        return evidence.suspects
    score = evidence.suspects.score.clone()
    is_trained = torch.zeros(len(labels), dtype=torch.bool)
    is_trained[out_of_fold.positions] = True
    if evidence.is_supported:
        averaged = _averaged(score, by_model.score, is_trained)
        return Suspects(averaged, by_model.suggested)
    if _may_judge(observed, out_of_fold):
        # Multiply the probabilities, as for independent evidence.
        joint = of_label((_logs(observed) + _logs(judged)).softmax(1), labels)
        for group in (is_trained, ~is_trained):
            score[group] = in_order_of(joint[group], score[group])
    return Suspects(score, by_model.suggested)


def _averaged(
    evidence: Float64[Tensor, " n"], by_model: Float64[Tensor, " n"], is_trained: Bool[Tensor, " n"]
) -> Float64[Tensor, " n"]:
    """Return the mean of both log-odds, on one scale for training and validation examples.

    A model partly memorizes the labels that it was trained on, and rates them less suspect. Only
    the evidence is comparable: a validation example gets the score of the training examples with
    the same evidence, and the model changes the ranking among the validation examples.
    """
    score, unseen = (evidence + by_model) / 2, ~is_trained
    known, scale = evidence[is_trained].sort().values, score[is_trained].sort().values
    if len(known) and unseen.any():
        held_out = evidence[unseen]
        within = held_out.clamp(known[0], known[-1])
        mapped = torch.from_numpy(np.interp(within.numpy(), known.numpy(), scale.numpy()))
        score[unseen] = in_order_of(-score[unseen], mapped + held_out - within)
    return score


def _logs(probs: Probs) -> Probs:
    return probs.clamp(min=LEAST_PROBABILITY).log()


def _completed(
    observed: Probs, labels: Labels, judged: OutOfFold
) -> tuple[Probs, Int64[Tensor, " n"]]:
    """Return predictions for all examples, with the labels that they were calibrated by.

    Some examples have no out-of-fold predictions: those that a person found unusable, and the
    validation examples of runs by older versions. They get the model's predictions, calibrated
    separately, because a trained model is more confident than one trained on half of the data.
    """
    completed, learned = observed.clone(), labels.clone()
    completed[judged.positions], learned[judged.positions] = judged.probabilities, judged.labels
    is_other = torch.ones(len(labels), dtype=torch.bool)
    is_other[judged.positions] = False
    if int(is_other.sum()) >= FEWEST_EXAMPLES:
        completed[judged.positions] = calibrated_by(judged.probabilities, judged.labels)
        completed[is_other] = calibrated_by(observed[is_other], labels[is_other])
    return completed, learned


def _may_judge(observed: Probs, out_of_fold: OutOfFold) -> bool:
    """True if a model predicts unseen labels as well as out of fold, and memorized few."""
    unseen = out_of_fold.validation
    if unseen is None or len(unseen.labels) < FEWEST_EXAMPLES:
        return False
    hits = observed.argmax(1)
    on_unseen = (hits[unseen.positions] == unseen.labels).double().mean().item()
    on_own = (hits[out_of_fold.positions] == out_of_fold.labels).double().mean().item()
    before = out_of_fold.are_hits.double().mean().item()
    error = math.sqrt(on_unseen * (1 - on_unseen) / len(unseen.labels))
    has_memorized = on_own - on_unseen >= _MEMORIZED * (1 - on_unseen)
    return on_unseen >= before - CLEAR * error and not has_memorized


def _of_observed_label(probs: Probs, loss: Loss, transition: Matrix) -> Probs:
    """Return probabilities of the observed label, given the loss that trained the model.

    A loss that corrects the noise trains the model to predict the true class. With any other, it
    predicts the observed label through the loss's noise model (the paper's ``f``).
    """
    if loss.predicts_true_class:
        return probs @ transition.mT
    return probs if loss.noise_model is None else loss.noise_model.forward(probs)
