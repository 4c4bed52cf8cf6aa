"""Our estimator: where a model is surest, what it predicts is the truth, and the labels show noise.

A label differs from the prediction because the label is wrong, or because the prediction is. Among
the examples of which the model is surest the second hardly happens, so what remains is the noise.
Nothing is assumed of its structure, but that it is much the same for sure examples as for others.
"""

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

SUREST = 0.2
_FEWEST = 20
_LEAST = 1e-12


def agreement_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"], share: float = SUREST
) -> Float64[Tensor, "classes classes"]:
    """How labels fall where the model is surest, drawn together as far as chance explains them.

    Args:
        probs: out-of-sample predictions
        labels: observed
        share: which part of the examples that are predicted to be of a class: the surest
    """
    return _shrunk(_counts(probs, labels, share))


def observed_given_predicted(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """How the labels are distributed among the examples predicted to be of a class."""
    return _shares(_counts(probs, labels, share=1.0))


def _counts(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"], share: float
) -> Float64[Tensor, "observed predicted"]:
    num_classes = probs.shape[1]
    sureness, predicted = probs.max(1)
    chosen = _surest(sureness, predicted, num_classes, share)
    cells = labels[chosen] * num_classes + predicted[chosen]
    return torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes).double()


def _surest(
    sureness: Float64[Tensor, " n"], predicted: Int64[Tensor, " n"], num_classes: int, share: float
) -> Int64[Tensor, " m"]:
    """Where the surest examples of every predicted class are, at least a few of each."""
    order = sureness.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]  # class after class, the surest first
    counts = predicted.bincount(minlength=num_classes)
    wanted = torch.maximum((share * counts).round().long(), counts.clamp(max=_FEWEST))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[predicted[order]]
    return order[place < wanted[predicted[order]]]


def _shares(counts: Float64[Tensor, "observed predicted"]) -> Float64[Tensor, "classes classes"]:
    totals = counts.sum(0)
    # nothing is known of a class that is never predicted: as if it had no noise
    unknown = torch.eye(len(counts), dtype=torch.float64)
    return torch.where(totals > 0, counts / totals.clamp(min=1), unknown)


def _shrunk(counts: Float64[Tensor, "observed predicted"]) -> Float64[Tensor, "classes classes"]:
    """Shares with less chance in them: empirical Bayes, towards noise that is alike everywhere.

    A class has a few hundred sure examples, and under symmetric noise ten of them or so for each
    wrong label. The classes' rates are drawn to their mean, and the wrong labels of a class to an
    even spread, by the part of their variance that chance alone would make. Where noise has a
    structure it varies much more than that, and stays.
    """
    num_classes, totals = len(counts), counts.sum(0)
    shares, known = _shares(counts), totals > 0
    is_wrong = ~torch.eye(num_classes, dtype=torch.bool)
    right = shares.diagonal()
    mean = (right * totals).sum() / totals.sum()
    chance = mean * (1 - mean) / totals.clamp(min=1)
    drawn = _part_of_chance(((right - mean) ** 2)[known], chance[known])
    rates = torch.where(known, 1 - (drawn * mean + (1 - drawn) * right), 0.0)
    even = 1 / (num_classes - 1)
    among_wrong = torch.where(is_wrong, shares, 0) / (1 - right).clamp(min=_LEAST)
    among_wrong = torch.where(is_wrong & (right == 1), even, among_wrong)  # no wrong one was seen
    wrong = (totals - counts.diagonal()).clamp(min=1)
    seen = is_wrong & (right < 1)
    chances = (even * (1 - even) / wrong).expand_as(shares)
    spread = _part_of_chance(((among_wrong - even) ** 2)[seen], chances[seen])
    among_wrong = torch.where(is_wrong, spread * even + (1 - spread) * among_wrong, 0.0)
    return rates * among_wrong + torch.diag(1 - rates)


def _part_of_chance(squares: Float64[Tensor, " m"], chance: Float64[Tensor, " m"]) -> Tensor:
    """Of the squared deviations, the part that chance would make; all of it, if there are none."""
    return (chance.sum() / squares.sum().clamp(min=_LEAST)).clamp(max=1)
