"""Copies and near copies among examples, and examples that are far from all others.

Rows of a table with few distinct values are equal by chance. Then still more rows are equal in all
columns but one. Copies come without such near misses. So equal rows count as copies only if there
are more than twice as many as the near misses explain.

A near copy is much closer to its original than other examples are. Let ``r`` be the distance of an
example to its nearest neighbor, divided by that to its tenth. Among independent examples whose
density is locally even in ``m`` dimensions, ``P(r < x) = 1 - (1 - x^m)^9``. The median of ``r``
gives ``m``. Pairs count as near copies if one data set in twenty would have a pair so close.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from noisebound.data.groups import numbered
from noisebound.data.rows import HELD_IN_MEMORY, JoinedRows, Rows, SparseRows

NEIGHBORS = 10
_FALSE_PAIRS = 0.05  # expected among independent examples
_CLOSE = 0.5
"""The largest distance of near copies, as a share of that to the tenth neighbor; heuristic. Among
the embeddings of 23,700 short texts, 337 have a neighbor below 0.1 and 76 one from 0.2 to 0.5."""
_LARGEST_SHARE = 0.05  # of all examples, for a set of copies: more share a common value; heuristic
_MARGIN = 2  # equal rows that chance explains, by an estimate that assumes unrelated columns
_MOST_COLUMNS = 64  # that are left out in turn
_WHOLE, _CELL, _QUERIES = 5_000, 1_000, 500  # examples that are compared with all, and with some
_SHOWN = 3  # sets of duplicates in a note


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Sets of duplicates, and how far each example is from the others.

    Args:
        groups: the set of each example, a set of its own for most; None without duplicates
        remoteness: the distance of each example to its tenth neighbor, as a multiple of the median;
            None if distances mean nothing, as for pixels and sparse features
        equal_by_chance: the number of rows that equal an earlier row, if by chance
    """

    groups: Int64[Tensor, " n"] | None
    remoteness: Float[Tensor, " n"] | None = None
    equal_by_chance: int = 0

    @property
    def sets(self) -> list[list[int]]:
        if self.groups is None:
            return []
        found: dict[int, list[int]] = {}
        for position, group in enumerate(self.groups.tolist()):
            found.setdefault(group, []).append(position)
        return [each for each in found.values() if len(each) > 1]

    def described(self, labels: Int64[Tensor, " n"]) -> tuple[list[list[int]], str]:
        """Return the sets, those with different labels first, and how many there are, in words."""
        differs = {tuple(each): len(set(labels[each].tolist())) > 1 for each in self.sets}
        sets = sorted(self.sets, key=lambda each: not differs[tuple(each)])
        return sets, (
            f"{sum(map(len, sets)):,} examples are copies or near copies of one another, in "
            f"{len(sets):,} {'set' if len(sets) == 1 else 'sets'}, "
            f"{sum(differs.values()):,} of them with different labels"
        )

    def note(self, labels: Int64[Tensor, " n"], name: Callable[[int], str]) -> str | None:
        """Return a sentence about the duplicates, with the names of some; None without any."""
        if self.groups is not None:
            sets, words = self.described(labels)
            shown = "; ".join(" = ".join(map(name, each[:2])) for each in sets[:_SHOWN])
            return f"{words}, such as {shown}. No set is in both training and held-out data"
        if not self.equal_by_chance:
            return None
        return (
            f"{self.equal_by_chance:,} rows equal an earlier row; the columns have few values, "
            "so they count as different examples"
        )


def find_duplicates(
    rows: Rows,
    table: pl.DataFrame | None = None,
    *,
    has_texts: bool = False,
    is_embedded: bool = False,
) -> Duplicates:
    """Return the duplicates among examples, by their inputs and the columns of a table, if any.

    Embeddings are compared by their cosine, other features by their distance once they are
    standardized, and images as pixels and the words of texts only for equality.
    """
    n = len(rows)
    if not (rows.shape[1:].numel() if table is None else table.width):
        return Duplicates(None)
    content = _contents(rows) if table is None else _numbered(_cleaned(table).hash_rows().to_list())
    equal = n - int(content.max()) - 1
    is_rich = is_embedded or has_texts or rows.ndim > 2  # too much to be equal by chance
    by_chance = equal > 0 and not is_rich and _is_chance(rows, table, content)
    copies = torch.arange(n) if by_chance else content
    groups, remoteness = copies, None
    is_dense = rows.ndim == 2 and rows.shape[1] > 0 and not isinstance(rows, SparseRows)
    is_near = is_dense and (is_embedded or not has_texts) and rows.nbytes <= HELD_IN_MEMORY
    # Numbers are in the order of appearance.
    before = torch.cat([torch.tensor([-1]), content.cummax(0).values[:-1]])
    first = (content > before).nonzero().squeeze(1)
    if is_near and not by_chance and len(first) > 2 * NEIGHBORS:
        is_one_vector = is_embedded and not isinstance(rows, JoinedRows)
        vectors = _comparable(rows.dense(first), by_angle=is_one_vector)
        distances, neighbors = nearest_neighbors(vectors, NEIGHBORS)
        groups = _joined(copies, first[_near_pairs(distances, neighbors)])
        far = distances[:, -1]
        remoteness = (far / far.median().clamp(min=torch.finfo(far.dtype).tiny))[content]
    groups = _without_large(groups)
    has_sets = int(groups.max()) + 1 < n
    return Duplicates(groups if has_sets else None, remoteness, equal if by_chance else 0)


def _contents(rows: Rows) -> Int64[Tensor, " n"]:
    """Return a number for the content of each example, the same for equal ones."""

    def keys() -> Iterator[Hashable]:
        if isinstance(rows, SparseRows):
            matrix = rows.matrix
            for place, (start, stop) in enumerate(pairwise(matrix.indptr.tolist())):
                values = matrix.indices[start:stop].tobytes() + matrix.data[start:stop].tobytes()
                yield _digest(values) if start < stop else place  # empty ones are not compared
            return
        for block in rows.blocks():
            block = block + 0.0 if block.is_floating_point() else block  # -0 becomes 0
            for row in block.flatten(1).contiguous().numpy():
                yield _digest(row.tobytes())

    return _numbered(keys())


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _numbered(keys: Iterable[Hashable]) -> Int64[Tensor, " n"]:
    """Return a number for each key, in the order of their first appearance."""
    known: dict[Hashable, int] = {}
    return torch.tensor([known.setdefault(key, len(known)) for key in keys])


def _cleaned(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose texts are alike if they differ by case and spaces only."""
    texts = pl.col(pl.String).str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    return table.with_columns(texts)


def _is_chance(rows: Rows, table: pl.DataFrame | None, content: Int64[Tensor, " n"]) -> bool:
    """True if chance explains the rows that are equal.

    Two rows that are equal in all columns but ``j`` are also equal in ``j`` with about the
    probability ``s_j`` that two rows are. So for each pair that differs in ``j`` alone, chance has
    ``s_j / (1 - s_j)`` pairs that are equal. Columns of which one is set at most encode a category
    and are left out together, and so are all columns of sparse features.
    """
    if isinstance(rows, SparseRows):
        return len(np.unique(rows.matrix.data)) <= 1
    if table is None:
        array = rows.whole().numpy()
        columns = [np.unique(column, return_inverse=True)[1] for column in array.T]
    else:
        hashes = (column.to_frame().hash_rows() for column in _cleaned(table))
        columns = [column.rank("dense").to_numpy() for column in hashes]
    random = np.random.default_rng(0)
    marks = [random.integers(2**63, size=int(each.max()) + 1)[each] for each in columns]
    left_out = _categories(columns)
    if len(left_out) > _MOST_COLUMNS:
        chosen = random.permutation(len(left_out))[:_MOST_COLUMNS]
        left_out = [left_out[index] for index in chosen]
    # Added in turn, because np.sum would first copy all marks.
    whole, total = reduce(np.add, marks), math.comb(len(content), 2)
    equal, expected = _pairs(whole), 0.0
    for each in left_out:
        mark = reduce(np.add, [marks[index] for index in each])
        share = _pairs(mark) / total
        near_misses = _pairs(whole - mark) - equal
        expected = max(expected, near_misses * share / (1 - share) if share < 1 else 0.0)
    return equal <= _MARGIN * expected


def _categories(columns: list[NDArray[Any]]) -> list[list[int]]:
    """Return the columns in groups: neighbors with two values of which one at most is set."""
    found: list[list[int]] = []
    are_set: NDArray[Any] | None = None  # the rows in which a column of the last group is
    for index, column in enumerate(columns):
        is_set = column == column.max() if column.max() - column.min() == 1 else None
        if is_set is not None and are_set is not None and not (is_set & are_set).any():
            found[-1].append(index)
            are_set = are_set | is_set
        else:
            found.append([index])
            are_set = is_set
    return found


def _pairs(keys: NDArray[Any]) -> int:
    counts = np.unique(keys, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _comparable(
    features: Shaped[Tensor, "n features"], *, by_angle: bool
) -> Float[Tensor, "n features"]:
    """Return vectors whose distance says how similar examples are."""
    vectors = features.float()
    if by_angle:
        return torch.nn.functional.normalize(vectors)
    std, mean = torch.std_mean(vectors, dim=0)
    return (vectors - mean) / torch.where(std > 0, std, 1.0)


def nearest_neighbors(
    vectors: Float[Tensor, "n features"], count: int
) -> tuple[Float[Tensor, "n neighbors"], Int64[Tensor, "n neighbors"]]:
    """Return the distances and the positions of the nearest other vectors, the nearest first.

    Each of many vectors is compared with those near the same one of some vectors drawn at random.
    Pairs that are very close are hardly ever missed, and the tenth neighbor may be one farther.
    """
    n = len(vectors)
    cells = 1 if n <= _WHOLE else n // _CELL
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    centers = vectors[order[:cells]]
    near = torch.cat(
        [
            torch.cdist(part, centers).topk(min(2, cells), largest=False).indices
            for part in torch.split(vectors, _QUERIES)
        ]
    )
    distances, found = torch.empty(n, count), torch.empty(n, count, dtype=torch.int64)
    for cell in range(cells):
        members = (near == cell).any(1).nonzero().squeeze(1)
        members = torch.arange(n) if len(members) <= count else members
        for own in torch.split((near[:, 0] == cell).nonzero().squeeze(1), _QUERIES):
            apart = torch.cdist(vectors[own], vectors[members])
            apart[own[:, None] == members] = math.inf
            nearest = members[apart.topk(count, largest=False).indices]
            # Distances by products of matrices lack digits where they are small.
            exact = (vectors[own][:, None] - vectors[nearest]).norm(dim=2)
            distances[own], order_of = exact.sort(dim=1)
            found[own] = nearest.gather(1, order_of)
    return distances, found


def _near_pairs(
    distances: Float[Tensor, "n neighbors"], neighbors: Int64[Tensor, "n neighbors"]
) -> Int64[Tensor, "pairs 2"]:
    """Return the pairs that are closer than chance would place them."""
    ratios = distances[:, :-1] / distances[:, -1:].clamp(min=torch.finfo(distances.dtype).tiny)
    others = NEIGHBORS - 1
    typical = ratios[:, 0].double().median().item()
    # P(ratio < r) = 1 - (1 - r^m)^others: one half at the median, and this at the limit.
    rare = _FALSE_PAIRS / (len(distances) * others)
    exponent = math.log(rare) / math.log(1 - 0.5 ** (1 / others))
    first, rank = (ratios < min(_CLOSE, typical**exponent)).nonzero().unbind(1)
    return torch.stack([first, neighbors[first, rank]], dim=1)


def _joined(groups: Int64[Tensor, " n"], pairs: Int64[Tensor, "pairs 2"]) -> Int64[Tensor, " n"]:
    """Return the groups after the groups of each pair are merged."""
    if not len(pairs):
        return groups
    count, ends = int(groups.max()) + 1, groups[pairs].numpy().T
    links = coo_array((np.ones(len(pairs)), (ends[0], ends[1])), shape=(count, count))
    found = torch.from_numpy(connected_components(links, directed=False)[1]).long()
    return _numbered(found[groups].tolist())


def _without_large(groups: Int64[Tensor, " n"]) -> Int64[Tensor, " n"]:
    """Return the groups, the members of a very large one each alone, such as empty texts."""
    group, sizes = numbered(groups)
    is_large: Bool[Tensor, " n"] = sizes[group] > max(2, _LARGEST_SHARE * len(groups))
    own = torch.arange(len(groups)) + len(groups)
    return _numbered(torch.where(is_large, own, groups).tolist())
