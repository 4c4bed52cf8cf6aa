"""Suspects: labels that are probably wrong, with a probability and a suggested label."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.checks import Array, ArrayLike, as_float64, check_transition, frames_to_caller
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.estimate import NoiseEstimate, estimate_noise
from noisebound.estimation.floor import LEAST_PROBABILITY, calibrated_by, random_sample
from noisebound.estimation.loss_mixture import log_odds_of_losses
from noisebound.estimation.noise import UnknownNoiseWarning
from noisebound.estimation.predictions import (
    FEWEST_JUDGED,
    Labels,
    Mask,
    Matrix,
    OutOfFold,
    Probs,
    Values,
    are_informative,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.sequences import are_sequences, join
from noisebound.estimation.transitions import true_class_probabilities
from noisebound.losses import Loss
from noisebound.noise_models import symmetric_transition

if TYPE_CHECKING:
    from noisebound.estimation.multi_label import MultiLabelSuspects
    from noisebound.estimation.tokens import TokenSuspects

_TRUSTED_SCORE = -20.0  # log-odds of one in 500 million
_SURE = 4.6  # log-odds of 99 %; beyond them, a score grows with the logarithm of the evidence
_UNEXPLAINED = 0.02  # share of the examples whose label the transition matrix does not describe
_SUREST = 1e-3  # least distance of a probability from zero and one
_NEUTRAL = 1e-3  # factor that brings meaningless log-odds near zero
_TIE = 1e-6  # log-odds between labels that would otherwise be equally suspect
_CLEAR = 2.0  # standard errors; by chance, a gain is larger in 1 case of 40
_MUCH_NEARER = 1 / 4
"""A matrix is also supported if it changes the predictions by this factor less than uniform noise
does: heuristic."""
_SEEN_AS_NOISE = 2 / 3
"""Among labels that differ from predictions, beyond the share among the surest examples, the part
that is assumed to be wrong. Chosen on the dev half of ``benchmarks/settings.py``."""
_MEMORIZED = 1 / 2
"""A model that has memorized at least this share of the labels that it could not predict does not
judge labels. Chosen on the first half of the tables in ``benchmarks/``."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """The log-odds that each label is wrong, and the likeliest other class, unless by losses."""

    score: Values
    suggested: Labels | None

    @property
    def probability(self) -> Values:
        """The probability that the label is wrong."""
        return self.score.sigmoid()

    @property
    def ranking(self) -> Int64[Tensor, " n"]:
        """The positions of the examples, the most suspect first."""
        return self.score.argsort(descending=True, stable=True)

    def neutral(self) -> "Suspects":
        """Return the same ranking, with all probabilities about one half."""
        return Suspects(_NEUTRAL * self.score, self.suggested)

    def without(self, is_trusted: Mask) -> "Suspects":
        """Return the same suspects, with trusted labels at the end of the ranking."""
        return Suspects(self.score.masked_fill(is_trusted, _TRUSTED_SCORE), self.suggested)


@overload
def find_suspects(
    probs_or_losses: Sequence[Array],
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
    multi_label: None = None,
) -> "TokenSuspects": ...
@overload
def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
    multi_label: Literal[True],
) -> "MultiLabelSuspects": ...
@overload
def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
    multi_label: Literal[False] | None = None,
) -> Suspects: ...
def find_suspects(
    probs_or_losses: ArrayLike,
    labels: ArrayLike,
    *,
    transition: ArrayLike | None = None,
    corrected: bool = False,
    multi_label: bool | None = None,
) -> "Suspects | MultiLabelSuspects":
    """Find the labels that are probably wrong.

    With probabilities ``q`` of the true class, Bayes' rule gives the probability that the label
    ``y`` is right: ``T[y, y] q_y / Σ_k T[y, k] q_k``. By default the matrix ``T`` is estimated, and
    used only if the labels are predicted better through it but not through uniform noise. Otherwise
    labels are ranked by their predicted probability. If the predictions are unrelated to the
    labels, all probabilities are about one half, with a warning.

    For labels of tokens, pass one array ``[length, classes]`` and one sequence of labels per
    sentence. Labels of -100 are ignored. The result then also ranks sentences and spans.

    For multi-label data, labels 0 and 1 (-1: not given) in the shape of the probabilities, the
    result is a `MultiLabelSuspects`: one ranking of pairs (example, label), missing or added.

    Args:
        probs_or_losses: class probabilities, one row per example, by a model that has not memorized
            the labels: out-of-fold, or from a bounded training. Or one loss per example, higher for
            wrong labels; no label is suggested then.
        labels: observed class indices
        transition: ``T[noisy, true]``; estimated by default. For multi-label data, one 2x2 matrix
            for all labels or for each
        corrected: True if the probabilities are those of the true class, as with a
            forward-corrected loss
        multi_label: True for multi-label data; by default, for 0/1 labels in the shape of the
            probabilities, unless all of their rows sum to one

    Example:
        >>> probs = torch.tensor([[0.9, 0.1]] * 50 + [[0.1, 0.9]] * 50)
        >>> labels = torch.tensor([0] * 49 + [1] * 51)  # the 50th looks like class 0
        >>> suspects = find_suspects(probs, labels)
        >>> suspects.ranking[0].item(), suspects.suggested[49].item()
        (49, 0)
    """
    if are_sequences(probs_or_losses):
        from noisebound.estimation.tokens import TokenSuspects  # built on this module

        tokens = join(probs_or_losses, labels)
        flat = find_suspects(
            tokens.probs, tokens.labels, transition=transition, corrected=corrected
        )
        return TokenSuspects.among(flat, tokens)
    # Imported here, as it applies the functions below to each label.
    from noisebound.estimation.multi_label import are_multi_label, find_label_suspects

    if are_multi_label(probs_or_losses, labels) if multi_label is None else multi_label:
        return find_label_suspects(probs_or_losses, labels, transition, corrected)
    given = torch.as_tensor(probs_or_losses).detach().cpu()
    if given.ndim == 1:
        if transition is not None or corrected:
            raise InvalidTypeError(
                "transition and corrected apply to probabilities, and these are losses"
            )
        return Suspects(log_odds_of_losses(as_float64(given), labels), None)
    probs = check_predictions(given)
    observed = check_labels(labels, probs, "probs")
    if transition is None and not corrected:
        found = suspects_by_evidence(probs.double(), observed)
        if not found.is_informed:
            warnings.warn(
                "no label can be called suspect: the predictions have nothing to do with the "
                "labels; train the model for more epochs, or on other features",
                UnknownNoiseWarning,
                stacklevel=frames_to_caller(),
            )
        return found.suspects
    if transition is None:
        matrix = estimate_noise(probs, observed).transition
    else:
        matrix = check_transition(transition).cpu()
    if len(matrix) != probs.shape[1]:
        raise InvalidValueError(
            f"transition is of {len(matrix)} classes, probs are of {probs.shape[1]}"
        )
    by_rule = suspects_of if corrected else suspects_through
    return by_rule(probs.double(), observed, matrix)


class SuspectEvidence(NamedTuple):
    """Suspects by probabilities, and how well the labels support them."""

    suspects: Suspects
    is_supported: bool  # the labels support noise that is independent of difficulty
    is_informed: bool = True  # the predictions depend on the labels
    transition: Matrix | None = None  # the matrix, if the suspects are by Bayes' rule


def suspects_by_evidence(
    probs: Probs,
    labels: Labels,
    learned: Labels | None = None,
    estimate: NoiseEstimate | None = None,
) -> SuspectEvidence:
    """Return the suspects, using as much structure of the noise as the labels support.

    ``learned`` are the labels that the model was trained on, if some were corrected since. By
    default, the noise is estimated from these probabilities.
    """
    learned = labels if learned is None else learned
    estimate = estimate or estimate_noise(probs, learned)
    found = _by_supported_noise(probs, labels, learned, estimate)
    if are_informative(probs, learned):
        return found
    # For a model at chance, the ranking may still help; the probabilities do not.
    return SuspectEvidence(found.suspects.neutral(), is_supported=False, is_informed=False)


def _by_supported_noise(
    probs: Probs, labels: Labels, learned: Labels, estimate: NoiseEstimate
) -> SuspectEvidence:
    num_classes = probs.shape[1]
    rate = _below_chance(estimate.noise_rate, num_classes)
    calibrated = calibrated_by(probs, learned)
    even = symmetric_transition(rate, num_classes)
    even_gain, even_distance = _fit_of_matrix(calibrated, learned, even)
    differing = (probs.argmax(1) != labels).double().mean().item()
    differing = min(differing, estimate.interval[1])  # the others are errors of the model
    # A matrix that explains few of the labels that differ would call the others right.
    if even_gain < -_CLEAR and rate > differing / 2:
        matrix = estimate.transition
        gain, distance = _fit_of_matrix(calibrated, learned, matrix)
        if gain > _CLEAR or distance < _MUCH_NEARER * even_distance:
            found = suspects_through(calibrated, labels, matrix)
            return SuspectEvidence(found, is_supported=True, transition=matrix)
    rate = min(rate, differing)
    share = rate + _SEEN_AS_NOISE * (differing - rate)
    return SuspectEvidence(_least_probable(probs, calibrated, labels, share), even_gain > _CLEAR)


def _least_probable(probs: Probs, calibrated: Probs, labels: Labels, share: float) -> Suspects:
    """Return suspects ranked by their labels' probabilities, with a share of them above one half.

    The log-odds are those of uniform noise of this rate, shifted to the share.
    """
    rate = _below_chance(share, probs.shape[1])
    other = rate / (probs.shape[1] - 1)
    true = ((of_label(calibrated, labels) - other) / (1 - rate - other)).clamp(_SUREST, 1 - _SUREST)
    score = (other * (1 - true)).clamp(min=LEAST_PROBABILITY).log() - ((1 - rate) * true).log()
    score = score.sort(descending=True).values
    count = round(share * len(labels))
    if 0 < count < len(labels):
        score = score - (score[count - 1] + score[count]) / 2
    # Break ties among the labels with the highest and lowest possible odds.
    places = torch.arange(len(score), dtype=torch.float64)
    score = score + _TIE * (count - 0.5 - places) / len(score)
    ordered = _in_order_of(of_label(probs, labels), score)
    suggested = probs.scatter(1, labels[:, None], -1).argmax(1)
    return Suspects(_limited(ordered), suggested)


def _below_chance(rate: float, num_classes: int) -> float:
    """Return the rate, limited to below the rate at which labels carry no information."""
    return min(rate, 0.95 * (num_classes - 1) / num_classes)


def _fit_of_matrix(probs: Probs, labels: Labels, transition: Matrix) -> tuple[float, float]:
    """Return how well predictions fit a matrix, by a sample of the labels.

    Predictions that the matrix cannot produce are replaced by the nearest possible ones. This
    removes errors if the matrix is right, and adds some if not. The first number is the gain in the
    labels' log-likelihood, in standard errors; the second is the change in total variation.
    """
    sample = random_sample(len(labels))
    probs, labels = probs[sample], labels[sample]
    seen = true_class_probabilities(probs, transition) @ transition.mT
    gain = of_label(seen, labels).clamp(min=1e-6).log()
    gain -= of_label(probs, labels).clamp(min=1e-6).log()
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    distance = float((seen - probs).abs().sum(1).mean()) / 2
    return float(gain.mean()) / max(error, LEAST_PROBABILITY), distance


def suspects_of(probs: Probs, labels: Labels, transition: Matrix) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the true class."""
    num_classes = len(transition)
    others = 1 - torch.eye(num_classes, dtype=torch.float64)
    softened = (1 - _UNEXPLAINED) * transition + _UNEXPLAINED / (num_classes - 1) * others
    likelihood = (softened / softened.sum(0))[labels] * probs  # [example, true class]
    right = of_label(likelihood, labels)
    wrong = likelihood.scatter(1, labels[:, None], 0)
    score = wrong.sum(1).clamp(min=1e-300).log() - right.clamp(min=1e-300).log()
    return Suspects(_limited(score), wrong.argmax(1))


def suspects_through(probs: Probs, labels: Labels, transition: Matrix) -> Suspects:
    """Return the suspects by Bayes' rule, from probabilities of the observed label.

    Inversion gives probability zero to each class that the matrix rules out, which would make many
    labels equally suspect. So a small part of the observed label's probabilities is mixed in.
    """
    described = true_class_probabilities(probs, transition)
    return suspects_of(torch.lerp(described, probs, _UNEXPLAINED), labels, transition)


def _limited(score: Values) -> Values:
    """Compress log-odds beyond 99 %; their order stays, and none becomes certain."""
    beyond = (score.abs() - _SURE).clamp(min=0)
    return score.clamp(-_SURE, _SURE) + score.sign() * beyond.log1p()


def _in_order_of(probability: Values, score: Values) -> Values:
    """Assign the highest score to the label with the lowest probability, and so on.

    Labels of equal probability get the mean of their scores.
    """
    group: Tensor = torch.unique(probability, return_inverse=True)[1]
    sums = group.sort().values.bincount(score.sort(descending=True).values)
    return (sums / group.bincount())[group].to(score)  # also if there are none


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

    If the labels support the estimated noise, the log-odds of the model and of the out-of-fold
    evidence are averaged. Otherwise the model changes at most the ranking, separately within the
    training and the validation examples: it has seen the labels of the former. Learners other than
    networks reproduce the labels that they were trained on, so only the evidence counts for them.

    The trained model gives ``probs``, for every example. By default, the noise is estimated from
    the out-of-fold predictions.
    """
    # A loss that corrects the noise makes the model predict the true class; any other, the observed
    # label through the loss's noise model (the paper's ``f``).
    if loss.predicts_true_class:
        observed, by_model = probs @ transition.mT, suspects_of(probs, labels, transition)
    else:
        observed = probs if loss.noise_model is None else loss.noise_model.forward(probs)
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
            score[group] = _in_order_of(joint[group], score[group])
    return Suspects(score, by_model.suggested)


def suspects_by_consensus(consensus: Probs, labels: Labels) -> Suspects:
    """Return how suspect labels are, given the probability of each true class."""
    right = of_label(consensus, labels).clamp(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    others = consensus.scatter(1, labels[:, None], -1.0)
    return Suspects((1 - right).log() - right.log(), others.argmax(1))


def _averaged(evidence: Values, by_model: Values, is_trained: Mask) -> Values:
    """Return the mean of both log-odds, on one scale for training and validation examples.

    A model rates the labels that it was trained on less suspect. So a validation example gets the
    score of the training examples with the same evidence, and the model changes the ranking among
    the validation examples.
    """
    score, unseen = (evidence + by_model) / 2, ~is_trained
    known, scale = evidence[is_trained].sort().values, score[is_trained].sort().values
    if len(known) and unseen.any():
        held_out = evidence[unseen]
        within = held_out.clamp(known[0], known[-1])
        mapped = torch.from_numpy(np.interp(within.numpy(), known.numpy(), scale.numpy()))
        score[unseen] = _in_order_of(-score[unseen], mapped + held_out - within)
    return score


def _logs(probs: Probs) -> Probs:
    return probs.clamp(min=LEAST_PROBABILITY).log()


def _completed(
    observed: Probs, labels: Labels, judged: OutOfFold
) -> tuple[Probs, Int64[Tensor, " n"]]:
    """Return predictions for all examples, with the labels that they were calibrated by.

    Examples that a person found unusable have no out-of-fold predictions. They get the model's,
    calibrated separately because it is more confident.
    """
    completed, learned = observed.clone(), labels.clone()
    completed[judged.positions], learned[judged.positions] = judged.probabilities, judged.labels
    is_other = torch.ones(len(labels), dtype=torch.bool)
    is_other[judged.positions] = False
    if int(is_other.sum()) >= FEWEST_JUDGED:
        completed[judged.positions] = calibrated_by(judged.probabilities, judged.labels)
        completed[is_other] = calibrated_by(observed[is_other], labels[is_other])
    return completed, learned


def _may_judge(observed: Probs, out_of_fold: OutOfFold) -> bool:
    """True if a model predicts unseen labels as well as out of fold, and memorized few."""
    unseen = out_of_fold.validation
    if unseen is None or len(unseen.labels) < FEWEST_JUDGED:
        return False
    hits = observed.argmax(1)
    on_unseen = (hits[unseen.positions] == unseen.labels).double().mean().item()
    on_own = (hits[out_of_fold.positions] == out_of_fold.labels).double().mean().item()
    before = (out_of_fold.logits.argmax(1) == out_of_fold.labels).double().mean().item()
    error = math.sqrt(on_unseen * (1 - on_unseen) / len(unseen.labels))
    has_memorized = on_own - on_unseen >= _MEMORIZED * (1 - on_unseen)
    return on_unseen >= before - _CLEAR * error and not has_memorized
