"""The kinds of label noise: how likely each label is to be replaced, and by what.

Each kind turns clean labels and uniform random numbers in ``[0, 1)`` into new labels;
``corrupt`` checks the arguments and draws the numbers.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float64, Int64
from torch import Tensor


class LabelNoise(Protocol):
    """A kind of noise as ``corrupt`` uses it."""

    def rates(self, labels: Int64[Tensor, " n"]) -> Float64[Tensor, " n"]:
        """Return the probability that each label is replaced."""

    def replacements(
        self, labels: Int64[Tensor, " n"], at: Int64[Tensor, " m"], draws: Float64[Tensor, " m"]
    ) -> Int64[Tensor, " m"]:
        """Return the new labels at these positions."""


@dataclass(frozen=True, eq=False)
class ConstantRate:
    """Noise that replaces every label with the same probability."""

    noise_rate: float

    def rates(self, labels: Tensor) -> Tensor:
        """Return the same rate for all labels."""
        return torch.full(labels.shape, self.noise_rate, dtype=torch.float64, device=labels.device)


@dataclass(frozen=True, eq=False)
class SymmetricNoise(ConstantRate):
    """Replaces a label by any other class, or by any class with ``include_self``."""

    num_classes: int
    include_self: bool

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Move each label by 1 … c-1 classes, cyclically; by 0 … c-1 with ``include_self``."""
        least = 0 if self.include_self else 1
        steps = least + (draws * (self.num_classes - least)).long()
        return (labels[at] + steps) % self.num_classes


@dataclass(frozen=True, eq=False)
class PairwiseNoise(ConstantRate):
    """Replaces a label by the next class, and the last class by the first."""

    num_classes: int

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Move each label by one class, cyclically."""
        return (labels[at] + 1) % self.num_classes


@dataclass(frozen=True, eq=False)
class SuperclassNoise(ConstantRate):
    """Replaces a label by any other class of the same group."""

    groups: Int64[Tensor, " classes"]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Move each label by a random number of classes, cyclically within its group."""
        members = self.groups.argsort(stable=True)  # the classes, sorted by group
        place = members.argsort()  # the place of each class among them
        sizes = self.groups.bincount()
        starts = sizes.cumsum(0) - sizes
        group = self.groups[labels[at]]
        size, start = sizes[group], starts[group]
        steps = 1 + (draws * (size - 1)).long()
        return members[start + (place[labels[at]] - start + steps) % size]


@dataclass(frozen=True, eq=False)
class TransitionNoise:
    """Replaces labels according to a matrix ``T[noisy, true]``."""

    transition: Float64[Tensor, "classes classes"]

    def rates(self, labels: Tensor) -> Tensor:
        """Return one minus the diagonal entry of each label's class."""
        return (1 - self.transition.diagonal()).clamp(0, 1)[labels]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Draw from the column of each label, without its diagonal entry."""
        off_diagonal = self.transition.clone().fill_diagonal_(0)
        cumulative = off_diagonal.cumsum(0) / off_diagonal.sum(0).clamp(min=1e-300)
        # One search serves all columns: class k's cumulative distribution is shifted by k, so that
        # all of them together are sorted. Searching right of equal values never draws a class of
        # probability zero.
        c = len(cumulative)
        classes = torch.arange(c, device=at.device)
        ladder = (cumulative + classes).T.flatten()
        found = torch.searchsorted(ladder, draws + labels[at], right=True)
        return (found - c * labels[at]).clamp(0, c - 1)


@dataclass(frozen=True, eq=False)
class ClassifierNoise(ConstantRate):
    """Replaces a label by the prediction of a classifier, which may be right."""

    predictions: Int64[Tensor, " n"]

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Return the predictions."""
        return self.predictions[at]


@dataclass(frozen=True, eq=False)
class InstanceNoise:
    """Mislabels ambiguous examples more often, as classes that they resemble."""

    noise_rate: float
    probs: Float64[Tensor, "n classes"]

    def rates(self, labels: Tensor) -> Tensor:
        """Return rates that are linear in the rank of the ambiguity and have the right mean.

        They begin at 0 if the mean is at most one half, and end at 1 otherwise.
        """
        mean = self.noise_rate
        of_label = self.probs.gather(1, labels[:, None]).squeeze(1)
        _, number, counts = torch.unique(of_label, return_inverse=True, return_counts=True)
        # Examples of equal ambiguity share their mean rank.
        ambiguity: Tensor = 1 - ((counts.cumsum(0) - counts.double() / 2) / len(labels))[number]
        return 2 * mean * ambiguity if mean <= 0.5 else 1 - 2 * (1 - mean) * (1 - ambiguity)

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Draw from the probabilities of the other classes."""
        others = self.probs[at] + torch.finfo(torch.float32).tiny  # so that not all are zero
        cumulative = others.scatter_(1, labels[at][:, None], 0).cumsum(1)
        total = cumulative[:, -1]
        targets = torch.minimum(draws * total, total.nextafter(torch.zeros_like(total)))
        return torch.searchsorted(cumulative, targets[:, None], right=True).squeeze(1)


@dataclass(frozen=True, eq=False)
class HumanNoise:
    """Replaces the labels by those that people gave."""

    human_labels: Int64[Tensor, " n"]

    def rates(self, labels: Tensor) -> Tensor:
        """Return 1 where the labels differ from those that people gave, else 0."""
        return (self.human_labels != labels).double()

    def replacements(self, labels: Tensor, at: Tensor, draws: Tensor) -> Tensor:
        """Return the labels that people gave."""
        return self.human_labels[at]
