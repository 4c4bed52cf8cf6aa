"""The evidence of trials: how many held-out labels a recipe predicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.search.recipes import RECIPES
from noisebound.training.config import RecipeName

Hits: TypeAlias = Bool[Tensor, "_ _"]
"""Whether each epoch of a trial predicted each label that judges it, one row per epoch."""

CERTAIN = 2.0
"""Standard errors by which a recipe must be ahead of plain training to replace it. The best of
sixteen that are no better than plain training is ahead by about one. On the first half of the
tables of ``benchmarks/``, one seed, nearly all gains were this certain. The same threshold decides
whether two recipes are compared on all examples, and whether a recipe beats guessing."""

_TOLERATED = 1.0
"""Standard errors by which a recipe may be behind plain training if classes count alike. Chosen on
the first half of the tables of ``benchmarks/survey_tables.py``."""


@dataclass(frozen=True)
class Evidence:
    """The result of the trials of a recipe.

    Args:
        recipe: the recipe
        stops_early: True if training ends at the epoch that agrees best with left-out labels
        epochs: the number of epochs that a training by it takes
        agreement: the share of the judged labels that it predicted
        gain: its agreement less that of plain training on the same examples
        standard_error: the standard error of the gain
        examples: how many labels judged it, each counted once; 0 if the recipe was named and
            nothing was tried
        balanced_gain: the gain if all classes of labels count alike, however many labels they have
        balanced_error: the standard error of the balanced gain
        beats_guessing: True if it predicts more labels than a guess, when classes count alike
    """

    recipe: RecipeName
    stops_early: bool
    epochs: int
    agreement: float
    gain: float
    standard_error: float
    examples: int
    balanced_gain: float = 0.0
    balanced_error: float = 0.0
    beats_guessing: bool = True

    @property
    def is_certain(self) -> bool:
        """True if it is ahead of plain training by more than chance explains."""
        return self.gain > CERTAIN * self.standard_error

    @property
    def favors_common_labels(self) -> bool:
        """True if its gain may come from predicting the more common labels more often.

        That is so if it is behind plain training, or no better than guessing, when classes count
        alike. If noise has made those labels common, such a gain costs accuracy on other classes.
        """
        is_behind = self.balanced_gain < -_TOLERATED * self.balanced_error
        return is_behind or not self.beats_guessing

    @property
    def is_convincing(self) -> bool:
        """True if it should take the place of plain training."""
        return self.is_certain and not self.favors_common_labels

    @property
    def agreement_error(self) -> float:
        """The standard error of the agreement."""
        return math.sqrt(self.agreement * (1 - self.agreement) / max(1, self.examples))

    @property
    def name(self) -> str:
        """The recipe's name, for a plot or a table."""
        return f"{self.recipe}, stopped early" if self.stops_early else self.recipe

    @property
    def label(self) -> str:
        """A description for people."""
        text = RECIPES[self.recipe].label
        return f"{text}, stopped after epoch {self.epochs}" if self.stops_early else text


@dataclass(frozen=True, eq=False)
class Judges:
    """The labels that judge trials.

    Args:
        labels: the labels of all examples that recipes are tried on
        halves: the positions of the labels that judge each trial of a recipe; two in a row are a
            division of all examples
    """

    labels: Int64[Tensor, " n"]
    halves: Sequence[Int64[Tensor, " _"]]

    def judgments(self, trials: int) -> Int64[Tensor, " n"]:
        """Return how many of the first trials each label has judged."""
        return torch.cat(list(self.halves[:trials])).bincount(minlength=len(self.labels))

    def shares(self, hits: Sequence[Bool[Tensor, " _"]]) -> Float64[Tensor, " m"]:
        """Return how often each label was predicted, by those of the first trials that it judged.

        Args:
            hits: for each of the first trials, whether it predicted the labels that judge it
        """
        positions = torch.cat(list(self.halves[: len(hits)]))
        sums = torch.zeros(len(self.labels), dtype=torch.float64)
        sums.index_add_(0, positions, torch.cat(list(hits)).double())
        counts = self.judgments(len(hits))
        return (sums / counts)[counts > 0]

    def evidence(
        self,
        recipe: RecipeName,
        hits: Sequence[Bool[Tensor, " _"]],
        plain: Sequence[Bool[Tensor, " _"]],
        *,
        epochs: int,
        stops_early: bool,
    ) -> Evidence:
        """Return the evidence of these trials.

        Args:
            recipe: its name
            hits: for each of its trials, whether it predicted the labels that judge it
            plain: the same of plain training, which may have had more trials
            epochs: the number of epochs that a training by it takes
            stops_early: True if plain training takes more epochs
        """
        shares = self.shares(hits)
        difference = shares - self.shares(plain[: len(hits)])
        labels = self.labels[self.judgments(len(hits)) > 0]
        balanced = _balanced(difference, labels)
        knowledge = _balanced(shares, labels)
        return Evidence(
            recipe,
            stops_early,
            epochs,
            shares.mean().item(),
            difference.mean().item(),
            difference.std(correction=0).item() / math.sqrt(len(difference)),
            len(difference),
            balanced.mean,
            balanced.error,
            knowledge.mean > 1 / len(torch.unique(labels)) + CERTAIN * knowledge.error,
        )


class _Balanced(NamedTuple):
    """A mean in which all classes count alike, and its standard error."""

    mean: float
    error: float


def _balanced(values: Float64[Tensor, " m"], labels: Int64[Tensor, " m"]) -> _Balanced:
    of_classes = [values[labels == label] for label in torch.unique(labels)]
    means = torch.stack([each.mean() for each in of_classes])
    # The variance of a class with one example is taken from all examples.
    whole = values.var(correction=0)
    variances = torch.stack(
        [(each.var() if len(each) > 1 else whole) / len(each) for each in of_classes]
    )
    return _Balanced(means.mean().item(), variances.sum().sqrt().item() / len(means))
