"""The kinds of label noise: how likely each label is to be replaced, and by what.

Each kind turns clean labels and uniform random numbers in ``[0, 1)`` into new labels;
``corrupt`` checks the arguments and draws the numbers.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import MissingExtraError

_ITERATIONS = 100  # heuristic: the noise needs a plausible classifier, not a converged one


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


def linear_probabilities(
    inputs: Tensor | NDArray[Any], labels: Int64[Tensor, " n"], num_classes: int
) -> Float64[Tensor, "n classes"]:
    """Return class probabilities of the training examples, from multinomial regression on them.

    This is the linear classifier behind the paper's non-uniform noise. The inputs are flattened and
    standardized. The fit is deterministic and stops after 100 iterations, converged or not. Classes
    without examples get probability zero.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "noise by a linear classifier (pass `probs` to do without)", "scikit-learn", "cli"
        ) from missing

    rows = np.asarray(inputs.detach().cpu() if isinstance(inputs, Tensor) else inputs, np.float32)
    rows = rows.reshape(len(rows), -1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_ITERATIONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, labels.cpu().numpy())
    probs = torch.zeros(len(rows), num_classes, dtype=torch.float64)
    probs[:, torch.as_tensor(model.classes_)] = torch.as_tensor(
        model.predict_proba(rows), dtype=torch.float64
    )
    return probs


CIFAR100_SUPERCLASSES = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
"""CIFAR-100's 20 superclasses of five classes each, as published by its authors."""


def cifar100_superclass_of() -> tuple[int, ...]:
    """Return the superclass of each fine class; both are numbered in alphabetical order."""
    superclass_of = {
        fine: index for index, fines in enumerate(CIFAR100_SUPERCLASSES.values()) for fine in fines
    }
    return tuple(superclass_of[fine] for fine in sorted(superclass_of))
