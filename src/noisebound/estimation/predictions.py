"""Predictions and observed labels: their checks, and out-of-fold predictions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, check_distribution, check_indices
from noisebound.errors import InvalidTypeError, InvalidValueError

Probs: TypeAlias = Float64[Tensor, "n classes"]
Labels: TypeAlias = Int64[Tensor, " n"]
Matrix: TypeAlias = Float64[Tensor, "classes classes"]  # mostly T[noisy, true]
PerClass: TypeAlias = Float64[Tensor, " classes"]
Values: TypeAlias = Float64[Tensor, " n"]
Mask: TypeAlias = Bool[Tensor, " n"]

FEWEST_JUDGED = 20  # the number of groups of the jackknife

_ROWS_AT_ONCE = 2**14
NUMBERS_AT_ONCE = 2**18  # 2 MB of float64, which stays in the processor's cache
CLEAR = 2.5
"""Standard deviations beyond chance: heuristic. Predictions that are independent of the labels pass
in 0.7 % of the cases, by 90 settings of sizes, class shares and sharpness."""


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of the observed label by models that were not trained on the example."""

    logits: Float[Tensor, "n classes"]
    labels: Labels
    positions: Int64[Tensor, " n"]  # in the whole training set, validation split included
    # True if a model was still learning, and had memorized nothing, after its last epoch.
    is_underfit: bool = False
    # By epoch, whether the predicted class is the observed label; of several, the share that is.
    hits: Bool[Tensor, "epochs n"] | Float[Tensor, "epochs n"] | None = None
    is_trusted: Mask | None = None  # whether a person has checked the label
    validation: "OutOfFold | None" = None  # the same models' predictions for that split
    votes: Int64[Tensor, "n annotators"] | None = None  # -1 where an annotator gave no label
    annotators: tuple[str, ...] = ()  # their names, if they are known
    counts_alike: bool = False  # both classes count alike, however rare one is

    @classmethod
    def joined(cls, folds: Sequence["OutOfFold"]) -> "OutOfFold":
        """Return the predictions of all folds, in the order of the positions.

        The folds take turns at the validation split, so that each example has one prediction.
        """
        positions = torch.cat([fold.positions for fold in folds])
        order = positions.argsort()
        hits = [fold.hits for fold in folds if fold.hits is not None]
        votes = [fold.votes for fold in folds if fold.votes is not None]
        validation = folds[0].validation
        if validation is not None:
            found = [fold.validation.logits for fold in folds if fold.validation is not None]
            turns = torch.arange(len(validation.labels))
            validation = replace(validation, logits=torch.stack(found)[turns % len(found), turns])
        return cls(
            torch.cat([fold.logits for fold in folds])[order],
            torch.cat([fold.labels for fold in folds])[order],
            positions[order],
            any(fold.is_underfit for fold in folds),
            torch.cat(hits, dim=1)[:, order] if len(hits) == len(folds) else None,
            validation=validation,
            votes=torch.cat(votes)[order] if votes else None,
            annotators=folds[0].annotators,
            counts_alike=folds[0].counts_alike,
        )

    @property
    def with_validation(self) -> "OutOfFold":
        """The predictions for the training examples, followed by the validation split."""
        other = self.validation
        if other is None:
            return self
        return OutOfFold(
            torch.cat([self.logits, other.logits]),
            torch.cat([self.labels, other.labels]),
            torch.cat([self.positions, other.positions]),
        )

    @property
    def num_classes(self) -> int:
        return self.logits.shape[1]

    @property
    def probabilities(self) -> Probs:
        """The probabilities of the observed label."""
        return self.logits.double().softmax(1)

    @property
    def are_hits(self) -> Mask | Float[Tensor, " n"]:
        """Whether the predicted class is the observed label; of several labels, which share is.

        If classes count alike, a hit counts for more in a rarer class, and 1 on average.
        """
        return hits_of(self.logits.argmax(1), self.labels, self.votes, alike=self.counts_alike)

    def averaged_with(self, others: Sequence["OutOfFold"]) -> "OutOfFold":
        """Return the mean of several out-of-fold predictions for the same examples."""
        if not others:
            return self
        mean = torch.stack([each.probabilities for each in (self, *others)]).mean(0)
        logits = mean.clamp(min=torch.finfo(mean.dtype).tiny).log().to(self.logits.dtype)
        validation = self.validation
        if validation is not None:
            also = [each.validation for each in others if each.validation is not None]
            validation = validation.averaged_with(also)
        return replace(self, logits=logits, hits=None, validation=validation)

    @property
    def unchecked(self) -> "OutOfFold":
        """The predictions for the labels that nobody has checked; for all if these are few."""
        if self.is_trusted is None or int((~self.is_trusted).sum()) < FEWEST_JUDGED:
            return self
        kept = ~self.is_trusted
        return OutOfFold(
            self.logits[kept],
            self.labels[kept],
            self.positions[kept],
            self.is_underfit,
            votes=None if self.votes is None else self.votes[kept],
            annotators=self.annotators,
        )


def hits_of(
    predicted: Int64[Tensor, "*stages n"],
    labels: Labels,
    votes: Int64[Tensor, "n annotators"] | None,
    *,
    alike: bool = False,
) -> Bool[Tensor, "*stages n"] | Float[Tensor, "*stages n"]:
    """Return whether each label was predicted; of several labels of an example, which share was.

    If classes count ``alike``, the mean is that of the classes' shares. Of two classifiers, the one
    with the higher mean on noisy labels has the higher one on true labels too, if the noise depends
    on the class alone (Menon et al., 2015).
    """
    if alike:
        counts = labels.bincount().double()
        weights = len(labels) / (counts.count_nonzero() * counts)
        return (predicted == labels) * weights[labels]
    if votes is None:
        return predicted == labels
    right = (predicted[..., None] == votes).sum(-1)
    return right / (votes >= 0).sum(-1)


def are_several(votes: Int64[Tensor, "n annotators"] | None) -> bool:
    """True if enough examples have two labels to estimate the noise by their agreement."""
    return votes is not None and int(((votes >= 0).sum(1) >= 2).sum()) >= FEWEST_JUDGED


def are_informative(probs: Float[Tensor, "n classes"], labels: Labels) -> bool:
    """True if predictions depend on the labels, beyond chance.

    This is a score test, which also works for imbalanced classes, where accuracy and log loss fail.
    Let ``q`` be the predictions less their mean, and ``π`` the shares of the labels. If labels and
    predictions are independent, ``Σ_i (q_i[y_i] - Σ_k π_k q_i[k])`` has mean zero and a known
    variance.
    """
    shares = labels.bincount(minlength=probs.shape[1]).double() / len(labels)
    mean = probs.mean(0, dtype=torch.float64)
    score = variance = 0.0
    rows = max(1, NUMBERS_AT_ONCE // probs.shape[1])
    for part, observed in zip(torch.split(probs, rows), torch.split(labels, rows), strict=True):
        centered = part.double() - mean
        expected = centered @ shares
        score += float((of_label(centered, observed) - expected).sum())
        variance += float((centered.square() @ shares - expected.square()).sum())
    least = torch.finfo(torch.float32).eps * len(labels)  # larger than rounding errors
    return score > max(CLEAR * math.sqrt(max(variance, 0.0)), least)


def check_predictions(probs: ArrayLike, name: str = "probs") -> Float[Tensor, "n classes"]:
    """Return class probabilities on the CPU, checked in blocks; float32 is kept, to save memory."""
    if not isinstance(probs, Tensor):
        probs = np.require(probs, requirements="W")  # torch warns about arrays that are read-only
        if probs.dtype.kind not in "biuf":
            raise InvalidTypeError(f"`{name}` must be numbers, got values of type {probs.dtype}")
    predictions = torch.as_tensor(probs).detach().cpu()
    if not predictions.is_floating_point() or predictions.dtype in (torch.float16, torch.bfloat16):
        predictions = predictions.double()
    if predictions.ndim == 4:
        raise InvalidValueError(
            f"`{name}` has the shape of images, {list(predictions.shape)}: "
            "find_pixel_suspects(probs, labels) takes them, and its result has the noise"
        )
    if predictions.ndim != 2 or not len(predictions):
        return check_distribution(predictions, name)
    for rows in torch.split(predictions, _ROWS_AT_ONCE):
        check_distribution(rows, name)
    return predictions


def check_labels(labels: ArrayLike, predictions: Tensor, name: str) -> Labels:
    """Return the labels on the CPU; refuse them if they do not fit the predictions ``name``."""
    if predictions.ndim != 2 or predictions.shape[1] < 2:
        raise InvalidValueError(
            f"`{name}` must have shape [examples, classes], got {tuple(predictions.shape)}"
        )
    observed = check_indices("labels", labels, predictions.shape[1]).cpu()
    if len(observed) != len(predictions):
        raise InvalidValueError(
            f"`labels` must be one per example, {len(predictions)}; got {len(observed)}"
        )
    if len(observed) < FEWEST_JUDGED:
        raise InvalidValueError(
            f"at least {FEWEST_JUDGED} examples are needed, got {len(observed)}"
        )
    return observed


def of_label(probs: Float[Tensor, "n classes"], labels: Labels) -> Float[Tensor, " n"]:
    """Return the probability of each example's label."""
    return probs.gather(1, labels[:, None]).squeeze(1)
