"""The kinds of label noise: how likely each label is to be replaced, and by what.

Each is given clean labels and numbers drawn evenly from ``[0, 1)``, which it turns into new labels;
`corrupt` checks the arguments and does the drawing.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float64, Int64
from torch import Tensor


class LabelNoise(Protocol):
    """What `corrupt` draws from."""

    def rates(self, labels: Int64[Tensor, " n"]) -> Float64[Tensor, " n"]:
        """The probability that each label is replaced."""

    def replacements(
        self, labels: Int64[Tensor, " n"], at: Int64[Tensor, " m"], draws: Float64[Tensor, " m"]
    ) -> Int64[Tensor, " m"]:
        """What the labels at these positions are replaced by."""


@dataclass(frozen=True, eq=False)
class ConstantRate:
    """Every label is as likely to be replaced as every other."""

    noise_rate: float

    def rates(self, labels: Tensor) -> Tensor:
        """The same for all."""
        return torch.full(labels.shape, self.noise_rate, dtype=torch.float64, device=labels.device)


@dataclass(frozen=True, eq=False)
class SymmetricNoise(ConstantRate):
    """To any other class, all alike; or to any class, if it may come back to itself."""

    num_classes: int
    include_self: bool

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """A step of 1 … c-1 round the circle of classes; 0 too if it may stay."""
        least = 0 if self.include_self else 1
        steps = least + (draws * (self.num_classes - least)).long()
        return (labels[at] + steps) % self.num_classes


@dataclass(frozen=True, eq=False)
class PairwiseNoise(ConstantRate):
    """To the next class, and from the last to the first."""

    num_classes: int

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """One step round the circle of classes."""
        return (labels[at] + 1) % self.num_classes


@dataclass(frozen=True, eq=False)
class SuperclassNoise(ConstantRate):
    """To another class of the same group, all alike."""

    groups: Int64[Tensor, " classes"]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """A step round the circle of the group's classes."""
        members = self.groups.argsort(stable=True)  # group after group
        place = members.argsort()  # of each class among them
        sizes = self.groups.bincount()
        starts = sizes.cumsum(0) - sizes
        group = self.groups[labels[at]]
        size, start = sizes[group], starts[group]
        steps = 1 + (draws * (size - 1)).long()
        return members[start + (place[labels[at]] - start + steps) % size]


@dataclass(frozen=True, eq=False)
class TransitionNoise:
    """By a matrix ``T[noisy, true]``."""

    transition: Float64[Tensor, "classes classes"]

    def rates(self, labels: Tensor) -> Tensor:
        """What is off the diagonal."""
        return (1 - self.transition.diagonal()).clamp(0, 1)[labels]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """From the column of the label, without its diagonal."""
        off_diagonal = self.transition.clone().fill_diagonal_(0)
        cumulative = off_diagonal.cumsum(0) / off_diagonal.sum(0).clamp(min=1e-300)
        # One search finds all: the columns' distributions, each raised by its class, lie one after
        # the other. To the right of equals, so that what has no probability is never drawn.
        c = len(cumulative)
        classes = torch.arange(c, device=at.device)
        ladder = (cumulative + classes).T.flatten()
        found = torch.searchsorted(ladder, draws + labels[at], right=True)
        return (found - c * labels[at]).clamp(0, c - 1)


@dataclass(frozen=True, eq=False)
class ClassifierNoise(ConstantRate):
    """To what a classifier says, right or wrong."""

    predictions: Int64[Tensor, " n"]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """What the classifier says."""
        return self.predictions[at]


@dataclass(frozen=True, eq=False)
class InstanceNoise:
    """The more ambiguous, the likelier; to what the example resembles."""

    noise_rate: float
    probs: Float64[Tensor, "n classes"]

    def rates(self, labels: Tensor) -> Tensor:
        """Linear in the rank of ambiguity, with the mean asked for: from 0 up, or up to 1."""
        mean = self.noise_rate
        of_label = self.probs.gather(1, labels[:, None]).squeeze(1)
        _, number, counts = torch.unique(of_label, return_inverse=True, return_counts=True)
        # equals share the middle of their ranks
        ambiguity: Tensor = 1 - ((counts.cumsum(0) - counts.double() / 2) / len(labels))[number]
        return 2 * mean * ambiguity if mean <= 0.5 else 1 - 2 * (1 - mean) * (1 - ambiguity)

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """By the probabilities of the other classes."""
        others = self.probs[at] + torch.finfo(torch.float32).tiny  # never all zero
        cumulative = others.scatter_(1, labels[at][:, None], 0).cumsum(1)
        total = cumulative[:, -1]
        targets = torch.minimum(draws * total, total.nextafter(torch.zeros_like(total)))
        return torch.searchsorted(cumulative, targets[:, None], right=True).squeeze(1)


@dataclass(frozen=True, eq=False)
class HumanNoise:
    """To what people said."""

    human_labels: Int64[Tensor, " n"]

    def rates(self, labels: Tensor) -> Tensor:
        """Certain where they differ."""
        return (self.human_labels != labels).double()

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """What they said."""
        return self.human_labels[at]
