"""Several labels per example: who gave them, and their majority."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.data.column_types import as_text, is_number, listed_names
from noisebound.data.labels import encode_labels, is_missing
from noisebound.errors import DataError

MISSING = -1
"""The vote of an annotator who did not label an example."""

CROWD_COLUMNS = ("task", "worker", "label")
"""The columns of a long table in crowd-kit: the item, the annotator and the label."""


class Annotations(NamedTuple):
    """Labels by annotators, one entry per label."""

    labels: pl.Series
    rows: Int64[Tensor, " labels"]  # the position of the example
    columns: Int64[Tensor, " labels"]  # the position of the annotator in `names`
    names: tuple[str, ...]
    are_named: bool = True  # False if nobody knows who gave the labels
    are_rows: bool = False  # True if the table has one row per label

    def votes(self, indices: Int64[Tensor, " labels"], count: int) -> Int64[Tensor, "n annotators"]:
        """Return the matrix of class indices for ``count`` examples."""
        votes = torch.full((count, len(self.names)), MISSING)
        votes[self.rows, self.columns] = indices
        return votes


_MANY = 10  # examples that others label too, after which another vocabulary is no chance; heuristic


def of_columns(labels: pl.DataFrame, where: str, *, are_named: bool = True) -> Annotations:
    """Return the labels of a table with one column per annotator, null where one is missing."""
    present = torch.from_numpy(np.stack([each.is_not_null().to_numpy() for each in labels]))
    columns, rows = present.nonzero(as_tuple=True)
    stacked = pl.concat([each.alias("label") for each in _of_one_type(labels, where)])
    return Annotations(stacked.drop_nulls(), rows, columns, tuple(labels.columns), are_named)


def _of_one_type(labels: pl.DataFrame, where: str) -> list[pl.Series]:
    """Return the columns with a common type; refuse text beside numbers."""
    if len(set(labels.dtypes)) == 1:
        return labels.get_columns()
    kinds = {
        each.name: "truth values"
        if each.dtype == pl.Boolean
        else "numbers"
        if is_number(each.dtype)
        else "text"
        for each in labels
        if each.null_count() < len(each)
    }
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name!r} holds {kind}" for name, kind in kinds.items())
        raise DataError(f"{where} must hold labels of one type, but {listed}")
    is_text = "text" in kinds.values()
    return [each.cast(pl.String if is_text else pl.Float64) for each in labels]


def of_lists(lists: pl.Series) -> pl.DataFrame:
    """Return a column of lists of labels as one column per place that has labels."""
    width = int(lists.list.len().max() or 0)  # type: ignore[arg-type]
    places = (
        lists.list.get(place, null_on_oob=True).alias(str(place + 1)) for place in range(width)
    )
    return pl.DataFrame([each for each in places if each.null_count() < len(each)])


class LongTable(NamedTuple):
    """A table with one row per label, as its examples and their labels."""

    examples: pl.DataFrame  # the first value of each column
    annotations: Annotations
    notes: tuple[str, ...]


def of_long_table(
    frame: pl.DataFrame, item: str | None, annotator: str | None, target: str, source: str
) -> LongTable:
    """Return the examples and labels of a table with one row per label.

    The column ``item`` identifies the example; without it, each row is an example. Messages name
    the table by ``source``.
    """
    for name in (item, annotator):
        if name is not None and (gone := frame[name].null_count()):
            raise DataError(f"{gone} of {len(frame)} rows of {source} have no value in {name!r}")
    examples, varying = frame, list[str]()
    rows = torch.arange(len(frame))
    if item is not None:
        items = frame.group_by(item, maintain_order=True)
        examples = items.agg(pl.all().drop_nulls().first()).select(frame.columns)
        rows = _codes(frame[item], examples[item])
        varying = _varying(frame, item, but=(target, annotator))
    if annotator is None:
        assert item is not None
        places = frame.select(pl.int_range(pl.len()).over(item)).to_series()
        columns = torch.from_numpy(places.to_numpy(writable=True)).long()
        names = tuple(str(place + 1) for place in range(int(columns.max()) + 1))
    else:
        distinct = frame[annotator].unique().sort()
        columns, names = _codes(frame[annotator], distinct), tuple(as_text(distinct).to_list())
        _refuse_repeated(frame, item, annotator, source)
    notes = []
    if varying:
        notes.append(f"{_listed(varying)} differs among the labels of one item, and was left out")
    if int(rows.bincount().max()) == 1:
        notes.append("no example has two labels, so annotators cannot be compared")
    annotations = Annotations(frame[target], rows, columns, names, annotator is not None, True)
    return LongTable(examples.drop(varying), annotations, tuple(notes))


def _codes(values: pl.Series, distinct: pl.Series) -> Int64[Tensor, " n"]:
    places = pl.Series(range(len(distinct)), dtype=pl.Int64)
    codes = values.replace_strict(distinct, places, return_dtype=pl.Int64)
    return torch.from_numpy(codes.to_numpy(writable=True))


def _varying(frame: pl.DataFrame, item: str, but: Sequence[str | None]) -> list[str]:
    """Return the columns with several values for one item, such as how long a label took."""
    is_compared = {
        name: not (dtype.is_nested() or dtype.is_object()) for name, dtype in frame.schema.items()
    }
    names = [name for name, is_so in is_compared.items() if is_so and name not in (item, *but)]
    counts = frame.group_by(item).agg(pl.col(name).drop_nulls().n_unique() for name in names)
    return [name for name in names if (counts[name] > 1).any()]


def _refuse_repeated(frame: pl.DataFrame, item: str | None, annotator: str, source: str) -> None:
    if item is None:
        return
    repeated = frame.filter(frame.select(item, annotator).is_duplicated())
    if len(repeated):
        where, who = repeated[item][0], repeated[annotator][0]
        raise DataError(
            f"{source}: {who!r} has labeled {where!r} more than once, as {len(repeated)} rows of "
            "such pairs show: keep one label of each annotator for each item"
        )


def is_matrix(labels: Any) -> bool:
    """True for labels ``[n, annotators]`` in memory, of several annotators."""
    if isinstance(labels, list | tuple):
        return len(labels) > 1 and np.ndim(labels[0]) == 1 and len(labels[0]) > 1
    shape = getattr(labels, "shape", ())
    return len(shape) == 2 and min(shape) > 1


def of_matrix(
    labels: Any, class_names: Sequence[str] | None = None
) -> tuple[Int64[Tensor, "n annotators"], tuple[str, ...], tuple[str, ...]]:
    """Return votes, the class names and notes from labels ``[n, annotators]`` in memory.

    None, NaN, an empty text and, among numbers, -1 stand for a missing label.
    """
    values = np.asarray(labels, object)
    if values.ndim != 2:
        raise DataError(
            "the rows of several labels must be equally long: put None where an annotator gave none"
        )
    if np.ma.isMaskedArray(labels):
        values = values.copy()
        values[np.ma.getmaskarray(labels)] = None
    is_gone = np.frompyfunc(lambda each: is_missing(each) or each == "", 1, 1)(values).astype(bool)
    is_mark = ~is_gone & (values == MISSING)
    notes = list[str]()
    if is_mark.any():
        if is_gone.any():
            raise DataError(
                "the labels have both -1 and None or NaN: use one of them for a missing label, and "
                "other numbers or text for the classes"
            )
        notes.append(f"{is_mark.sum():,} of {values.size:,} labels are -1 and count as missing")
    present = ~(is_gone | is_mark)
    if not present.any():
        raise DataError(f"all {values.size:,} labels are missing")
    listed = values[present].tolist()
    if present.all() and set(listed) == {0, 1} and (values.sum(1) == 1).all():
        raise DataError(
            "labels must be classes, and these are one-hot, with a single 1 in each row: pass "
            "labels.argmax(1)"
        )
    are_texts = [isinstance(each, str | bytes) for each in listed]
    if any(are_texts) and not all(are_texts):
        raise DataError("the labels are partly text and partly numbers: give them one type")
    indices, names = encode_labels(listed, class_names)
    votes = torch.full(values.shape, MISSING)
    votes[torch.from_numpy(present)] = torch.from_numpy(indices)
    return votes, names, tuple(notes)


def check_votes(votes: Int64[Tensor, "n annotators"], names: Sequence[str], where: str) -> None:
    """Raise a `DataError` for labels in columns that no annotators could have given."""
    cast = votes != MISSING
    for place in (~cast.any(0)).nonzero().flatten().tolist():
        raise DataError(f"{where}: {names[place]!r} holds no label: leave it out")
    if bare := int((~cast.any(1)).sum()):
        raise DataError(f"{where}: {bare} of {len(votes)} examples have no label: drop them")
    if votes.shape[1] > 1 and int(cast.sum(1).max()) < 2:
        raise DataError(
            f"{where}: each example has one label only, in one of {len(names)} columns: put the "
            "labels into one column, and who gave them into another: `annotator`"
        )
    if len(names) < 2:
        return
    count = int(votes.max()) + 1
    uses = torch.stack([each[each >= 0].bincount(minlength=count) > 0 for each in votes.T])
    is_alone = (uses & (uses.sum(0) > 1)).sum(1) == 0
    shared = (cast & (cast.sum(1, keepdim=True) > 1)).sum(0)
    for place in (is_alone & (shared >= _MANY)).nonzero().flatten().tolist():
        raise DataError(
            f"{where}: {names[place]!r} has no label in common with the other columns: name "
            "columns in which several annotators label the same thing"
        )


def majority_vote(
    votes: Int64[Tensor, "n annotators"], num_classes: int, *, are_named: bool
) -> Int64[Tensor, " n"]:
    """Return the most frequent label of each example.

    A tie goes to the label whose annotators agree more with all others, then to the first column,
    which favors no class. Each example needs a label.
    """
    cast = votes != MISSING
    counts = _counts(votes, cast.double(), num_classes)
    weights = torch.ones(votes.shape[1], dtype=torch.float64)
    if are_named:
        others = (cast.sum(1, keepdim=True) - 1) * cast
        same = (counts.gather(1, votes.clamp(min=0)) - 1) * cast
        weights = same.sum(0) / others.sum(0).clamp(min=1)
    is_best = counts == counts.max(1, keepdim=True).values
    weight = _counts(votes, cast * weights, num_classes).masked_fill(~is_best, -1.0)
    is_chosen = weight >= weight.max(1, keepdim=True).values - 1e-9
    first = (is_chosen.gather(1, votes.clamp(min=0)) & cast).int().argmax(1, keepdim=True)
    return votes.gather(1, first).squeeze(1)


def _counts(
    votes: Int64[Tensor, "n annotators"], weights: Float64[Tensor, "n annotators"], classes: int
) -> Float64[Tensor, "n classes"]:
    """Return the total weight of the votes for each class."""
    counts = torch.zeros(len(votes), classes + 1, dtype=torch.float64)
    return counts.scatter_add(1, votes + 1, weights)[:, 1:]


def note_on_votes(votes: Int64[Tensor, "n annotators"], names: Sequence[str]) -> str:
    """Return how many labels there are, in words."""
    given = (votes != MISSING).sum(1)
    return (
        f"{int(given.sum()):,} labels by {len(names):,} annotators: {int((given > 1).sum()):,} of "
        f"{len(votes):,} examples have several labels, and their majority vote counts as their "
        "label"
    )


def _listed(names: Sequence[str]) -> str:
    return listed_names([repr(name) for name in names], most=5)
