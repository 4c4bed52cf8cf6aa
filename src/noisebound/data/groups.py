"""Groups of examples that belong together, such as the rows of one patient: no fold divides them.

A model that was trained on one example of a group knows something of the others, such as a wrong
label that they share. Predictions are out of fold only if whole groups are held out.
"""

from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from noisebound.data.labels import is_missing
from noisebound.errors import DataError

_LARGEST_SHARE = 1 / 4  # of the examples, for a group that a small part consists of; heuristic


def group_indices(values: Any, count: int, of: str = "`groups`") -> Int64[Tensor, " n"]:
    """Return the number of each example's group: examples with equal values are one group.

    Messages call the values ``of``.

    Example:
        >>> group_indices(["ann", "bob", "ann"], 3)
        tensor([0, 1, 0])
    """
    if not isinstance(values, pl.Series):
        # Objects, because numpy would turn a NaN among texts into a text.
        array = np.asarray(values, object if isinstance(values, list | tuple) else None)
        values = [None if is_missing(each) else each for each in array.tolist()]
    series = pl.Series(values, strict=False)
    if series.dtype.is_nested() or len(series) != count:
        got = "lists" if series.dtype.is_nested() else f"{len(series):,}"
        raise DataError(f"{of} must have one value for each of {count:,} examples, got {got}")
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if missing := series.null_count():
        raise DataError(
            f"{missing:,} of {count:,} examples have no value in {of}: fill them in; an example "
            "that belongs to no other one is a group of its own"
        )
    found = series.cast(pl.String).rank("dense").cast(pl.Int64) - 1
    if found.n_unique() < 2:
        raise DataError(
            f"{of} puts all examples into one group, so none could be held out: give values that "
            "differ from one group to the next, or leave `groups` out"
        )
    return torch.from_numpy(found.to_numpy(writable=True))


def with_their_groups(
    chosen: Bool[Tensor, " n"], groups: Int64[Tensor, " n"] | None
) -> Bool[Tensor, " n"]:
    """Return which examples are chosen, or in the group of one that is."""
    if groups is None:
        return chosen
    together: Tensor = torch.isin(groups, groups[chosen])
    return together


def classes_in_one_group(labels: Int64[Tensor, " n"], groups: Int64[Tensor, " n"]) -> list[int]:
    """Return the classes of several examples, all of which are in one group."""
    pairs = torch.unique(torch.stack([labels, groups]), dim=1)
    is_single = (torch.bincount(pairs[0]) == 1) & (torch.bincount(labels) > 1)
    found: list[int] = is_single.nonzero().flatten().tolist()
    return found


def are_alone(groups: Int64[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Return which examples are the only one of their group."""
    group, sizes = numbered(groups)
    return sizes[group] == 1


def numbered(
    groups: Int64[Tensor, " n"],
) -> tuple[Int64[Tensor, " n"], Int64[Tensor, " groups"]]:
    """Return the number of each example's group, from zero on, and the size of each group."""
    _, group, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    return group, sizes


def whole_groups(
    labels: Int64[Tensor, " n"],
    groups: Int64[Tensor, " n"],
    share: float,
    shuffled: Int64[Tensor, " n"],
) -> Int64[Tensor, " m"]:
    """Return the positions of groups of several examples that have this share of each class.

    One group after the other, the largest first, is taken if this brings the number of examples,
    and of those of each class, nearer to their share of the groups so far. The shuffled positions
    decide between groups of equal size.
    """
    group, sizes = numbered(groups)
    classes = int(labels.max()) + 1
    cells, counts = torch.unique(group * classes + labels, return_counts=True)
    content: list[list[tuple[int, int]]] = [[(classes, int(size))] for size in sizes.tolist()]
    for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
        content[cell // classes].append((cell % classes, count))
    order = list(dict.fromkeys(group[shuffled].tolist()))
    order = sorted((each for each in order if sizes[each] > 1), key=lambda each: -int(sizes[each]))
    excess, taken = [0.0] * (classes + 1), torch.zeros(len(sizes), dtype=torch.bool)
    for each in order:
        # The change of the sum of squares if it is taken, less the change if it is left.
        change = sum(n * (2 * excess[k] + n * (1 - 2 * share)) for k, n in content[each])
        taken[each] = change < 0
        for k, n in content[each]:
            excess[k] += n * ((change < 0) - share)
    if order and not taken.any() and bool((sizes > 1).all()):
        taken[order[-1]] = bool(sizes[order[-1]] <= _LARGEST_SHARE * len(labels))
    found: Tensor = taken[group].nonzero().squeeze(1)
    return found
