"""Examples with several labels at once: 0/1 columns, lists of labels, and 0/1 matrices."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.data.column_types import as_text, is_scalar, is_string, listed_names
from noisebound.data.frames import as_table, is_frame
from noisebound.data.labels import is_missing
from noisebound.data.votes import is_matrix
from noisebound.errors import DataError

PRESENCE = ("absent", "present")
"""The two classes of an example with respect to one label."""

FEWEST = 5
"""The fewest examples with a label, and without it, from which it can be learned: two are then in
each half of the examples; heuristic."""

_WORDS = {"1": 1, "true": 1, "yes": 1, "y": 1, "0": 0, "false": 0, "no": 0, "n": 0, "-1": -1}
_LISTS = ";|"
_SEPARATORS = f"{_LISTS},"  # in the order of preference: names may contain commas


class LabelMatrix(NamedTuple):
    """Which labels each example has: 1 if it has the label, 0 if not, -1 if nobody knows."""

    values: Int64[Tensor, "n labels"]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def matrix_of_columns(columns: pl.DataFrame, where: str) -> LabelMatrix:
    """Return the matrix of columns of 0 and 1, or of words such as yes and no; null is -1."""
    found = [_presence(each, where) for each in columns]
    values = torch.from_numpy(np.stack([each.to_numpy() for each in found], axis=1).copy())
    return LabelMatrix(values, tuple(columns.columns))


def _presence(column: pl.Series, where: str) -> pl.Series:
    is_one = is_scalar(column.dtype) or column.dtype == pl.Null
    words = as_text(column) if is_one else pl.Series(map(str, column.to_list()))
    words = words.str.strip_chars().str.to_lowercase()
    found = words.replace_strict(_WORDS, default=None, return_dtype=pl.Int64)
    wrong = column.filter(found.is_null() & ~words.is_in(["", "nan"]).fill_null(True))
    if len(wrong):
        raise DataError(
            f"{where} must hold 0 and 1, or words such as no and yes, and column {column.name!r} "
            f"holds {wrong[0]!r}: give one column per label, or one column of lists"
        )
    return found.fill_null(-1)


def matrix_of_lists(column: pl.Series, where: str, known: Sequence[str] = ()) -> LabelMatrix:
    """Return the matrix of a column with a list of labels in each row; null is -1 for all labels.

    A text is a list in JSON, or names that a semicolon, a bar or a comma separates. Other names
    than those ``known`` are refused, if there are any.
    """
    notes, dtype = list[str](), column.dtype
    if isinstance(dtype, pl.List) and is_scalar(dtype.inner):  # type: ignore[arg-type]
        lists = column.cast(pl.List(pl.String))
    elif is_string(dtype):
        texts = column.cast(pl.String).str.strip_chars()
        marks = [mark for mark in _SEPARATORS if texts.str.contains(mark, literal=True).any()]
        is_json = bool(texts.str.starts_with("[").any())
        if not is_json and not marks:
            raise DataError(
                f"{where} must hold lists of labels, such as drama;comedy, and no row has more "
                "than one: for one label per row, name the column as `target`"
            )
        if not is_json:
            notes.append(f"the labels in {where} are separated by {marks[0]!r}")
        lists = pl.Series([_listed(text, marks, where) for text in texts], dtype=pl.List(pl.String))
    else:
        raise DataError(
            f"{where} must hold lists of labels, or texts such as drama;comedy, got {dtype}: for "
            "one column of 0 and 1 per label, name at least two columns as `targets`"
        )
    rows = pl.DataFrame({"row": range(len(lists)), "label": lists})
    pairs = rows.explode("label").with_columns(pl.col("label").str.strip_chars())
    pairs = pairs.filter(pl.col("label").fill_null("") != "")
    found = pairs["label"].unique().sort().to_list()
    unknown = [name for name in found if known and name not in known]
    if unknown:
        raise DataError(
            f"{where}: unknown labels {listed_names(list(map(repr, unknown)), 5)}; the labels are "
            f"{listed_names(list(map(repr, known)), 10)}"
        )
    names = tuple(known or found)
    values = torch.zeros(len(lists), len(names), dtype=torch.int64)
    index_of = {name: index for index, name in enumerate(names)}
    values[pairs["row"].to_list(), [index_of[name] for name in pairs["label"]]] = 1
    values[torch.from_numpy(lists.is_null().to_numpy(writable=True))] = -1
    return LabelMatrix(values, names, tuple(notes))


def _listed(text: str | None, marks: Sequence[str], where: str) -> list[str] | None:
    if text is None or not text.startswith("["):
        return None if text is None else text.split(marks[0]) if marks else [text]
    try:
        return list(map(str, json.loads(text)))
    except ValueError as error:
        raise DataError(f"{where} has a list that is not JSON: {text!r}") from error


def matrix_of_array(labels: Any, names: Sequence[str] = ()) -> LabelMatrix:
    """Return the matrix of 0/1 labels ``[n, labels]`` in memory, by default named by position.

    Missing labels are None, NaN or -1.
    """
    if is_frame(labels):
        frame = as_table(labels)
    else:
        array = _rectangular(labels)
        if array is None:
            raise DataError(
                "`targets` needs a 0/1 matrix with a column per label; put lists into one column "
                "of a table"
            )
        if np.ma.isMaskedArray(labels):
            array = array.astype(object)
            array[np.ma.getmaskarray(labels)] = None
        if array.ndim != 2:
            raise DataError(f"`targets` names labels, which need a matrix, got shape {array.shape}")
        listed = (array[:, place].tolist() for place in range(array.shape[1]))
        columns = [[None if is_missing(each) else each for each in column] for column in listed]
        frame = pl.DataFrame({str(k): pl.Series(each) for k, each in enumerate(columns)})
    if names and len(names) != frame.width:
        raise DataError(f"`targets` has {len(names)} names, and the labels {frame.width} columns")
    if len(set(names)) < len(names):
        raise DataError(f"`targets` names a label twice, got {', '.join(names)}")
    frame.columns = list(names or frame.columns)
    return matrix_of_columns(frame, "the matrix of labels")


def _rectangular(labels: Any) -> NDArray[Any] | None:
    """Return labels as an array, without a mask, or None if the rows differ in length."""
    try:
        return np.asarray(labels)
    except ValueError:
        return None


def is_indicator(labels: Any) -> bool:
    """True for a 0/1 matrix in memory without missing labels, as scikit-learn has it.

    A matrix with a single 1 in each row may be one class, one-hot, so it is none.
    """
    if not is_frame(labels) and not is_matrix(labels):
        return False
    values = _rectangular(as_table(labels).to_numpy() if is_frame(labels) else labels)
    if values is None or np.ma.is_masked(labels):
        return False
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "biuf":
        return False
    return bool(np.isin(values, (0, 1)).all()) and not bool((values.sum(1) == 1).all())


HINT = "if they are several labels that an example has at once, name the columns as `targets`"
"""Follows the note that labels count as those of several annotators."""


def are_truth_values(labels: pl.Series) -> bool:
    """True if labels are 0 and 1, or words such as no and yes, which may be labels of their own."""
    return bool(as_text(labels.unique()).str.to_lowercase().is_in(list(_WORDS)).all())


INDICATOR_NOTE = (
    "the labels are a matrix of 0 and 1, and count as several labels of each example; if they are "
    "one label by several annotators, write the classes as text, such as no and yes"
)


def list_hint(class_names: Sequence[str]) -> str | None:
    """Return what to do if classes look like lists of labels, as drama;comedy does."""
    lists = [name for name in class_names if set(name).intersection(_LISTS)]
    if 4 * len(lists) <= len(class_names):
        return None
    return (
        f"labels such as {lists[0]!r} look like lists: if an example has several labels at once, "
        "name the column as `targets`"
    )


def matrix_in_memory(labels: Any, names: Sequence[str]) -> LabelMatrix | None:
    """Return the matrix of labels in memory, if they are named or clearly are one; else None."""
    if names:
        return matrix_of_array(labels, names)
    if not is_indicator(labels):
        return None
    return matrix_of_array(labels)._replace(notes=(INDICATOR_NOTE,))


def unlearnable(values: Int64[Tensor, "n labels"], names: Sequence[str]) -> dict[str, str]:
    """Return why a label cannot be learned, by the names of those that too few have or lack."""
    counts = zip(names, (values == 0).sum(0).tolist(), (values == 1).sum(0).tolist(), strict=True)
    return {
        name: _too_few(absent, present)
        for name, absent, present in counts
        if min(absent, present) < FEWEST
    }


def _too_few(absent: int, present: int) -> str:
    if not present or not absent:
        return f"is {'always' if present else 'never'} there" if absent + present else "is empty"
    fewer, rest = ("with", present) if present < absent else ("without", absent)
    return f"has {rest} example{'s' if rest > 1 else ''} {fewer} it"
