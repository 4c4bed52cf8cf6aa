"""Accuracy, recall and F1 on true labels, from predictions and noisy labels.

Noise is often more frequent on examples that the model gets wrong too. Then the true accuracy lies
between the noisy one and the one that is corrected for noise independent of the model's mistakes.
So the interval begins halfway between these two, at the lowest noise rate, and ends at the second.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.checks import ArrayLike, check_indices
from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import (
    Labels,
    Probs,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.transitions import true_class_probabilities
from noisebound.estimation.trusted import (
    REACH,
    Trusted,
    audited_rate,
    check_trusted,
    labels_to_check,
)
from noisebound.estimation.truth import (
    AnyNoise,
    Estimated,
    NoiseRange,
    Score,
    Truth,
    accuracy_of,
    checked_truth,
    difference_of,
    hull,
    macro_f1_of,
    noisy_truth,
    own_estimate,
    recall_of,
)


@dataclass(frozen=True)
class CleanScore:
    """The scores of predictions on true labels.

    Args:
        accuracy: the share of true labels that are predicted
        interval: the 95 % interval of the accuracy
        noisy_accuracy: the share of the given labels that are predicted
        condition: the condition under which the intervals are valid, in a few words
        labels_to_check: the number of labels to check by hand to know the accuracy to ±3 points
        macro_f1: the mean F1 over the classes
        recall: for each class, the share of its examples that are predicted; None without examples
        difference: the accuracy minus that of the other predictions
        examples: the number of examples
        warnings: the problems with the scores, one sentence each
    """

    accuracy: float
    interval: tuple[float, float]
    noisy_accuracy: float
    condition: str
    labels_to_check: int
    macro_f1: Score
    recall: tuple[Score | None, ...]
    difference: Score | None
    examples: int
    warnings: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        low, high = (f"{end:.1%}" for end in self.interval)
        return f"{self.accuracy:.1%} ({low} to {high} with 95% confidence, {self.condition})"


def clean_score(
    predictions: ArrayLike,
    labels: ArrayLike,
    *,
    noise: AnyNoise | None = None,
    other: ArrayLike | None = None,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted | None = None,
) -> CleanScore:
    """Return how accurate predictions are on true labels, given noisy ones.

    The model must not have been trained on these labels: use a held-out split or out-of-fold
    predictions.

    The interval covers sampling error, the interval of the noise rate, and noise from fully
    independent of the model's mistakes to half concentrated on them. If wrong labels follow
    from the inputs, the model repeats them, and the interval is too high. A hundred labels checked
    by hand remove the condition: pass them as ``trusted``.

    Args:
        predictions: the predicted class indices, or the class probabilities, one row per example
        labels: observed class indices
        noise: the noise of the labels: the result of `estimate_noise`, the ``noise`` of a run, a
            rate, or a matrix ``T[noisy, true]``, which says that noise depends on the class alone
            (default: estimated from ``predictions``, if these are probabilities)
        other: the predictions of another model for the same examples, to compare with
        trusted: ``(positions, true_labels)`` of examples that were drawn at random and checked by a
            person. They make the scores unbiased for any noise

    Example:
        >>> from noisebound import corrupt
        >>> g = torch.Generator().manual_seed(0)
        >>> true = torch.arange(10).repeat(1000)
        >>> predictions = corrupt(true, "symmetric", 0.1, 10, generator=g, exact=True).labels
        >>> noisy = corrupt(true, "symmetric", 0.4, 10, generator=g, exact=True)
        >>> score = clean_score(predictions, noisy.labels, noise=noisy.transition)
        >>> print(f"{score.noisy_accuracy:.1%}; {score.summary}")
        54.7%; 90.4% (88.6% to 92.1% with 95% confidence, if noise depends on the class alone)
    """
    count = _num_classes(noise, predictions, other, labels)
    probs = _as_probabilities("predictions", predictions, count)
    if np.ndim(labels) == 2 and np.shape(labels)[1] == 1:
        labels = np.asarray(labels)[:, 0]
    observed = check_labels(labels, probs, "predictions")
    predicted = probs.argmax(1)
    against = predicted if other is None else _as_probabilities("other", other, count).argmax(1)
    if len(against) != len(predicted):
        raise InvalidValueError(
            f"`other` must have one prediction per example, {len(predicted)}; got {len(against)}"
        )
    checked = None if trusted is None else check_trusted(trusted, observed, count)
    are_probs = np.ndim(predictions) == 2
    if noise is None:
        noise = own_estimate(probs if are_probs else None, observed, checked)
    known = NoiseRange.of(noise, count)
    noisy_accuracy = (predicted == observed).double().mean().item()
    if checked is None:
        truths, is_known = known.truths(observed), known.is_informative
        warnings, condition = known.warnings(noisy_accuracy, len(observed)), known.condition
    else:
        guess = _guess(probs.double(), observed, known, None if are_probs else noisy_accuracy)
        truths, is_known, warnings = [checked_truth(guess, checked)], True, ()
        condition = f"by {len(checked.positions):,} checked labels"

    def scores(function: Callable[[Truth], Estimated], lowest: float = 0.0) -> list[Score | None]:
        return hull([function(truth) for truth in truths], lowest, is_known=is_known)

    (accuracy,) = scores(lambda truth: accuracy_of(predicted, truth))
    (macro_f1,) = scores(lambda truth: macro_f1_of(predicted, truth))
    (difference,) = scores(lambda truth: difference_of(predicted, against, truth), -1.0)
    if checked is not None:
        accuracy = _audited_accuracy(predicted, guess, checked)
    assert accuracy is not None
    assert macro_f1 is not None
    return CleanScore(
        accuracy=accuracy.value,
        interval=accuracy.interval,
        noisy_accuracy=noisy_accuracy,
        condition=condition,
        labels_to_check=labels_to_check(1 - accuracy.value, len(observed)),
        macro_f1=macro_f1,
        recall=tuple(scores(lambda truth: recall_of(predicted, truth))),
        difference=None if other is None else difference,
        examples=len(observed),
        warnings=warnings,
    )


def _audited_accuracy(predicted: Labels, guess: Truth, checked: Trusted) -> Score:
    """Return the accuracy by checked labels, for the population that the examples are drawn from.

    A mistake is as suspect as the guess says. The interval of the audit is for the examples alone.
    """
    suspicion, at = 1 - of_label(guess, predicted), checked.positions
    is_wrong = predicted[at] != checked.true_labels
    found = audited_rate(is_wrong, suspicion[at], suspicion, checked.weights)
    count = len(predicted)
    cautious = (count * found.rate + 1) / (count + 2)  # positive even without mistakes
    sampling = REACH**2 * cautious * (1 - cautious) / count
    low, high = (
        found.rate + sign * math.sqrt((end - found.rate) ** 2 + sampling)
        for sign, end in zip((-1, 1), found.interval, strict=True)
    )
    return Score(1 - found.rate, (max(0.0, 1 - high), min(1.0, 1 - low)))


def _guess(probs: Probs, labels: Labels, known: NoiseRange, accuracy: float | None) -> Truth:
    """Return probabilities of the true class, given the prediction and the label.

    Classes that are predicted without probabilities are as sure as they are often the label.
    """
    count = probs.shape[1]
    if accuracy is not None:
        probs = accuracy * probs + (1 - accuracy) / (count - 1) * (1 - probs)
    joint = known.middle[labels] * true_class_probabilities(probs, known.middle)
    total = joint.sum(1, keepdim=True)
    return torch.where(total > 0, joint / total, noisy_truth(labels, count))


def _num_classes(noise: AnyNoise | None, *given: Any) -> int:
    """Return the number of classes: of the noise, of probabilities, or by the largest index."""
    matrix: Any = getattr(noise, "transition", noise)
    if matrix is not None and np.ndim(matrix) == 2:
        return int(np.shape(matrix)[0])
    columns = [int(np.shape(each)[1]) for each in given if each is not None and np.ndim(each) == 2]
    if columns and columns[0] > 1:
        return columns[0]
    largest = [int(np.max(np.asarray(each))) for each in given if each is not None]
    return max(1, *largest) + 1


def _as_probabilities(name: str, given: ArrayLike, count: int) -> Float[Tensor, "n classes"]:
    if np.ndim(given) != 2:
        return noisy_truth(check_indices(name, given, count).cpu(), count)
    probs = check_predictions(given, name)
    if probs.shape[1] != count:
        raise InvalidValueError(
            f"`{name}` must have one column for each of {count} classes, got {probs.shape[1]}"
        )
    return probs
