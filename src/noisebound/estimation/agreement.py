"""The default estimator: where a model is surest, it is right, and the labels show the noise.

A label differs from the prediction because the label is wrong, or because the prediction is. Among
the examples of which the model is surest the second hardly happens, so what remains is the noise.
One thing is assumed: the noise is much the same for sure examples as for others.
"""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

SUREST = 0.2  # chosen on the sixteen settings of `results/beyond`; not tried elsewhere
_FEWEST = 20  # per predicted class: the standard error of a share is then at most 0.11
_LEAST = 1e-12


def agreement_transition(
    sureness: Float[Tensor, " n"],
    predicted: Int64[Tensor, " n"],
    labels: Int64[Tensor, " n"],
    num_classes: int,
    share: float = SUREST,
) -> Float64[Tensor, "classes classes"]:
    """Return how labels fall where the model is surest, shrunk as far as chance explains them.

    Args:
        sureness: the probability of each predicted class
        predicted: the likeliest class of each example
        labels: observed class indices
        num_classes: the number of classes
        share: the surest share of the examples of each predicted class, in ``(0, 1]``
    """
    return _shrunk(_counts(sureness, predicted, labels, num_classes, share))


def observed_given_predicted(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """Return the distribution of labels among the examples of each predicted class."""
    sureness, predicted = probs.max(1)
    return _shares(_counts(sureness, predicted, labels, probs.shape[1], share=1.0))


def _counts(
    sureness: Float[Tensor, " n"],
    predicted: Int64[Tensor, " n"],
    labels: Int64[Tensor, " n"],
    num_classes: int,
    share: float,
) -> Float64[Tensor, "observed predicted"]:
    chosen = surest_of_each_class(sureness, predicted, num_classes, share)
    cells = labels[chosen] * num_classes + predicted[chosen]
    return torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes).double()


def surest_of_each_class(
    sureness: Float[Tensor, " n"], predicted: Int64[Tensor, " n"], num_classes: int, share: float
) -> Int64[Tensor, " m"]:
    """Return the positions of the surest examples of every predicted class, a few at least."""
    order = sureness.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]  # class after class, the surest first
    counts = predicted.bincount(minlength=num_classes)
    wanted = torch.maximum((share * counts).round().long(), counts.clamp(max=_FEWEST))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[predicted[order]]
    return order[place < wanted[predicted[order]]]


def _shares(counts: Float64[Tensor, "observed predicted"]) -> Float64[Tensor, "classes classes"]:
    totals = counts.sum(0)
    # Nothing is known of a class that is never predicted: it is taken to have no noise.
    unknown = torch.eye(len(counts), dtype=torch.float64)
    return torch.where(totals > 0, counts / totals.clamp(min=1), unknown)


def _shrunk(counts: Float64[Tensor, "observed predicted"]) -> Float64[Tensor, "classes classes"]:
    """Return shares with less chance in them, by empirical Bayes towards uniform noise.

    A class has a few hundred sure examples, and under symmetric noise ten of them or so for each
    wrong label. The classes' rates are drawn to their mean, and the wrong labels of a class to an
    even spread, as far as chance explains how they differ. Where noise has a structure they differ
    by much more than that, and stay.
    """
    shares = _shares(counts)
    rates = _drawn_to_mean(1 - shares.diagonal(), counts.sum(0))
    return rates * _among_wrong(counts) + torch.diag(1 - rates)


def _drawn_to_mean(
    rates: Float64[Tensor, " classes"], totals: Float64[Tensor, " classes"]
) -> Float64[Tensor, " classes"]:
    """Return the classes' rates, of whose differences only what exceeds chance is kept.

    The variance between classes is DerSimonian and Laird's, by moments.
    """
    known = totals > 0
    mean = (rates * totals).sum() / totals.sum()
    precision = totals[known] / (mean * (1 - mean)).clamp(min=_LEAST)
    excess = (precision * (rates[known] - mean) ** 2).sum() - (known.sum() - 1)
    scale = precision.sum() - (precision**2).sum() / precision.sum()
    between = (excess / scale.clamp(min=_LEAST)).clamp(min=0)
    kept = between / (between + 1 / precision)
    drawn = rates.clone()
    drawn[known] = mean + kept * (rates[known] - mean)
    return drawn


def _among_wrong(
    counts: Float64[Tensor, "observed predicted"],
) -> Float64[Tensor, "classes classes"]:
    """Return how each class's wrong labels spread, shrunk to an even spread (James and Stein)."""
    num_classes = len(counts)
    even = 1 / (num_classes - 1)
    wrong = counts.clone().fill_diagonal_(0)
    totals = wrong.sum(0)
    shares = wrong / totals.clamp(min=1)
    is_wrong = ~torch.eye(num_classes, dtype=torch.bool)
    # Pearson's statistic, which chance alone would bring to its degrees of freedom
    statistic = torch.where(is_wrong, (shares - even) ** 2, 0.0).sum(0) * totals / even
    chance = (num_classes - 2) / statistic.clamp(min=_LEAST)
    chance = torch.where(totals > 0, chance.clamp(max=1), 1.0)
    return torch.where(is_wrong, chance * even + (1 - chance) * shares, 0.0)
