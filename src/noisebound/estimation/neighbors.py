"""Neighbor consensus: an example and its two nearest neighbors are mostly of one true class.

So three labels were drawn for one truth, and how often they agree, and on what, tells the noise
(Zhu et al., 2021). The likeliest transition matrix and class prior are found by EM.
"""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Generator, Tensor

_MOST_EXAMPLES = 15_000  # distances of all to all
_ROWS_AT_ONCE = 1_000
_ROUNDS = 300
_TOLERANCE = 1e-7


def neighbor_triples(
    features: Float[Tensor, "n dim"], labels: Int64[Tensor, " n"]
) -> Int64[Tensor, "m three"]:
    """Return the labels of each example and its two nearest neighbors; of a sample, if many.

    Args:
        features: vectors in which similar examples are near each other
        labels: observed class indices
    """
    if len(labels) > _MOST_EXAMPLES:
        chosen = torch.randperm(len(labels), generator=Generator().manual_seed(0))[:_MOST_EXAMPLES]
        features, labels = features[chosen], labels[chosen]
    nearest = []
    for start in range(0, len(features), _ROWS_AT_ONCE):
        rows = features[start : start + _ROWS_AT_ONCE]
        distances = torch.cdist(rows, features)
        own = torch.arange(start, start + len(rows))
        distances[torch.arange(len(rows)), own] = torch.inf
        nearest.append(torch.cat([own[:, None], distances.topk(2, largest=False).indices], dim=1))
    return labels[torch.cat(nearest)]


def transition_of_triples(
    triples: Int64[Tensor, "m three"], num_classes: int
) -> Float64[Tensor, "classes classes"]:
    """Return the matrix under which three labels of one true class are likeliest, by EM."""
    distinct, counts = torch.unique(triples, dim=0, return_counts=True)
    weights = counts.double() / counts.sum()
    # classes keep their names by the start: a true class is observed as itself most often
    transition = torch.full((num_classes, num_classes), 0.4 / (num_classes - 1)).double()
    transition.fill_diagonal_(0.6)
    prior = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
    before = -torch.inf
    for _ in range(_ROUNDS):
        joint = transition[distinct].prod(1) * prior  # [triple, true class]
        totals = joint.sum(1, keepdim=True).clamp(min=1e-300)
        likelihood = (weights @ totals.log()).item()
        if likelihood - before < _TOLERANCE:
            break
        before = likelihood
        responsibility = weights[:, None] * joint / totals
        prior = responsibility.sum(0)
        expected = torch.full((num_classes, num_classes), 1e-12, dtype=torch.float64)
        for labels in distinct.T:
            expected.index_add_(0, labels, responsibility)
        transition = expected / expected.sum(0)
    return transition
