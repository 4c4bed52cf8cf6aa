"""The kinds of label noise: how likely each label is to be replaced, and by what.

New labels follow from the old ones and from uniform random numbers in ``[0, 1)``, one per label;
``corrupt`` checks the arguments and draws the numbers.
"""

import json
import warnings
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import needed_for

Labels: TypeAlias = Int64[Tensor, " m"]
Draws: TypeAlias = Float64[Tensor, " m"]

_ITERATIONS = 100  # heuristic: the noise needs a plausible classifier, not a converged one


def any_other_class(old: Labels, draws: Draws, num_classes: int, include_self: bool) -> Labels:
    """Move each label by 1 … c-1 classes, cyclically; by 0 … c-1 with ``include_self``."""
    least = 0 if include_self else 1
    return (old + least + (draws * (num_classes - least)).long()) % num_classes


def other_class_of_group(old: Labels, draws: Draws, groups: Int64[Tensor, " classes"]) -> Labels:
    """Move each label by a random number of classes, cyclically within its group."""
    members = groups.argsort(stable=True)  # the classes, sorted by group
    place = members.argsort()  # the place of each class among them
    sizes = groups.bincount()
    starts = sizes.cumsum(0) - sizes
    size, start = sizes[groups[old]], starts[groups[old]]
    steps = 1 + (draws * (size - 1)).long()
    return members[start + (place[old] - start + steps) % size]


def wrong_class_of_column(
    old: Labels, draws: Draws, transition: Float64[Tensor, "classes classes"]
) -> Labels:
    """Draw from the column of each label in ``T[noisy, true]``, without its diagonal entry."""
    off_diagonal = transition.clone().fill_diagonal_(0)
    cumulative = off_diagonal.cumsum(0) / off_diagonal.sum(0).clamp(min=1e-300)
    # One search serves all columns: class k's cumulative distribution is shifted by k, so that all
    # of them together are sorted. Searching right of equal values never draws a class of
    # probability zero.
    c = len(cumulative)
    ladder = (cumulative + torch.arange(c, device=old.device)).T.flatten()
    found = torch.searchsorted(ladder, draws + old, right=True)
    return (found - c * old).clamp(0, c - 1)


def other_class(old: Labels, draws: Draws, probs: Float64[Tensor, "m classes"]) -> Labels:
    """Draw from the probabilities of the other classes."""
    others = probs + torch.finfo(torch.float32).tiny  # so that not all are zero
    cumulative = others.scatter_(1, old[:, None], 0).cumsum(1)
    total = cumulative[:, -1]
    targets = torch.minimum(draws * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, targets[:, None], right=True).squeeze(1)


def rates_by_ambiguity(
    labels: Int64[Tensor, " n"], probs: Float64[Tensor, "n classes"], mean: float
) -> Float64[Tensor, " n"]:
    """Return rates that are linear in the rank of the ambiguity and have this mean.

    They begin at 0 if the mean is at most one half, and end at 1 otherwise.
    """
    of_label = probs.gather(1, labels[:, None]).squeeze(1)
    _, number, counts = torch.unique(of_label, return_inverse=True, return_counts=True)
    # Examples of equal ambiguity share their mean rank.
    ambiguity: Tensor = 1 - ((counts.cumsum(0) - counts.double() / 2) / len(labels))[number]
    return 2 * mean * ambiguity if mean <= 0.5 else 1 - 2 * (1 - mean) * (1 - ambiguity)


def linear_probabilities(
    inputs: Tensor | NDArray[Any], labels: Int64[Tensor, " n"], num_classes: int
) -> Float64[Tensor, "n classes"]:
    """Return class probabilities of the training examples, from multinomial regression on them.

    This is the linear classifier behind the paper's non-uniform noise. The inputs are flattened and
    standardized. The fit is deterministic and stops after 100 iterations, converged or not. Classes
    without examples get probability zero.
    """
    what = "noise by a linear classifier (pass `probs` to do without)"
    with needed_for(what, "scikit-learn", "cli"):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    rows = np.asarray(inputs.detach().cpu() if isinstance(inputs, Tensor) else inputs, np.float32)
    rows = rows.reshape(len(rows), -1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_ITERATIONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, labels.cpu().numpy())
    probs = torch.zeros(len(rows), num_classes, dtype=torch.float64)
    probs[:, torch.as_tensor(model.classes_)] = torch.as_tensor(model.predict_proba(rows)).double()
    return probs


CIFAR100_SUPERCLASSES: dict[str, list[str]] = json.loads(
    files("noisebound.corruption").joinpath("cifar100_superclasses.json").read_text("utf-8")
)
"""CIFAR-100's 20 superclasses of five classes each, as published by its authors."""


def cifar100_superclass_of() -> tuple[int, ...]:
    """Return the superclass of each fine class; both are numbered in alphabetical order."""
    fine = sorted(
        (name, index)
        for index, names in enumerate(CIFAR100_SUPERCLASSES.values())
        for name in names
    )
    return tuple(index for _, index in fine)
