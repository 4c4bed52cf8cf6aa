"""The evidence of trials: how many held-out labels each candidate predicts."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from pydantic.dataclasses import dataclass
from torch import Tensor

from noisebound.search.recipes import RECIPES, Candidate
from noisebound.training.config import LearnerName, RecipeName

CERTAIN = 2.0
"""Standard errors that make a difference certain. The best of sixteen recipes that are no better
than plain training is ahead by about one. On the first half of the tables of ``benchmarks/``, one
seed, nearly all gains were this certain."""

_TOLERATED = 1.0
"""Standard errors by which a candidate may be behind plain training, and by which it must be ahead
of a guess, if classes count alike. The first was chosen on the first half of the tables of
``benchmarks/survey_tables.py``, the second on the dev half of ``benchmarks/estimates.py``."""


@dataclass(frozen=True)
class Evidence:
    """The result of the trials of a candidate."""

    recipe: RecipeName
    stops_early: bool  # a network's training ends before the last epoch
    epochs: int  # of a network's training
    agreement: float  # the share of the held-out labels that it predicted
    gain: float  # its agreement less that of plain training on the same examples
    standard_error: float  # of the gain
    examples: int  # held-out labels; 0 if the recipe was named and nothing was tried
    balanced_gain: float = 0.0  # the gain if every class counts alike
    balanced_error: float = 0.0  # its standard error
    beats_guessing: bool = True  # it predicts more labels than a guess, if classes count alike
    learner: LearnerName = "network"
    stage: int = 0  # the position of the stage at which the learner stops
    setting: str = ""  # the same stage in words, unless the learner is a network

    @property
    def candidate(self) -> Candidate:
        """The learner and the recipe."""
        return Candidate(self.learner, self.recipe)

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
    def agreement_error(self) -> float:
        """The standard error of the agreement."""
        return math.sqrt(self.agreement * (1 - self.agreement) / max(1, self.examples))

    @property
    def name(self) -> str:
        """A short name, for a plot or a table."""
        learner = "" if self.learner == "network" else f"{self.learner}, "
        return f"{learner}{self.recipe}{', stopped early' if self.stops_early else ''}"

    @property
    def label(self) -> str:
        """A description for people."""
        return self.described(RECIPES[self.recipe].is_regularized)

    def described(self, is_regularized: bool) -> str:
        """Return a description of the candidate, whose network may be regularized."""
        words = self.candidate.described(is_regularized)
        if not self.stops_early:
            return words
        return f"{words}{',' if ' with ' in words else ''} stopped after epoch {self.epochs}"

    @property
    def stop(self) -> str:
        """The stage at which it stops, in words."""
        return f"epoch {self.epochs}" if self.learner == "network" else self.setting or "as given"


def evidence_of(
    candidate: Candidate,
    labels: Int64[Tensor, " n"],
    shares: Float64[Tensor, " n"],
    plain: Float64[Tensor, " n"],
    *,
    stage: int,
    epochs: int,
    stops_early: bool,
    setting: str = "",
    counts_alike: bool = False,
) -> Evidence:
    """Return the evidence for a candidate.

    The shares say how often it, and plain training in the same divisions, predicted each label. If
    classes count alike, they are weighted, so that their mean is that of the classes.
    """
    gains = shares - plain
    if counts_alike:
        balanced, knowledge = (
            _Balanced(each.mean().item(), standard_error(each)) for each in (gains, shares)
        )
    else:
        balanced, knowledge = _balanced(gains, labels), _balanced(shares, labels)
    guess = 1 / len(torch.unique(labels))
    return Evidence(
        recipe=candidate.recipe,
        stops_early=stops_early,
        epochs=epochs,
        agreement=shares.mean().item(),
        gain=gains.mean().item(),
        standard_error=standard_error(gains),
        examples=len(labels),
        balanced_gain=balanced.mean,
        balanced_error=balanced.error,
        beats_guessing=knowledge.mean > guess + _TOLERATED * knowledge.error,
        learner=candidate.learner,
        stage=stage,
        setting=setting,
    )


def standard_error(values: Float64[Tensor, " n"]) -> float:
    """Return the standard error of a mean."""
    return values.std(correction=0).item() / math.sqrt(len(values))


def is_behind(
    shares: Float64[Tensor, " n"], best: Float64[Tensor, " n"], errors: float = CERTAIN
) -> bool:
    """True if a candidate predicts fewer labels than another, by more than some standard errors."""
    behind = best - shares
    return behind.mean().item() > errors * standard_error(behind)


class _Balanced(NamedTuple):
    """A mean in which all classes count alike, and its standard error."""

    mean: float
    error: float


def _balanced(values: Float64[Tensor, " n"], labels: Int64[Tensor, " n"]) -> _Balanced:
    of_classes = [values[labels == label] for label in torch.unique(labels)]
    means = torch.stack([each.mean() for each in of_classes])
    # The variance of a class with one example is taken from all examples.
    whole = values.var(correction=0)
    variances = torch.stack(
        [(each.var() if len(each) > 1 else whole) / len(each) for each in of_classes]
    )
    return _Balanced(means.mean().item(), variances.sum().sqrt().item() / len(means))
