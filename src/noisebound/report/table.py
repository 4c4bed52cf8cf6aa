"""A table, as a reader sees it and as records for a program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: the text of the cell
        beside: a number to compare with, such as the paper's; shown in parentheses
        value: the number that the column is sorted by
        is_best: True if the cell is the best of its column
        is_gain: True if the bound made the result better
    """

    text: str
    beside: str = ""
    value: float | None = None
    is_best: bool = False
    is_gain: bool = False


EMPTY = Cell("–")


def number_cell(value: float | None, form: str, *, is_gain: bool = False) -> Cell:
    """Return the cell of a number, which its column can be sorted by; an empty cell for None.

    Args:
        value: the number
        form: the format, as for :func:`format`
        is_gain: True if the bound made the number better
    """
    return EMPTY if value is None else Cell(format(value, form), "", float(value), is_gain=is_gain)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        label: heading of the row
        cells: one per column after the first
        is_shaded: True to shade the row, as the rows of bounded losses are
    """

    label: str
    cells: tuple[Cell, ...]
    is_shaded: bool = False


@dataclass(frozen=True)
class Table:
    """A table: rows for a reader, records for a program, notes for both.

    Args:
        name: the stem of the names of its files
        title: the title
        header: the heading of the row labels, then of each column
        rows: the rows for a reader
        records: the same numbers with all their digits, one record per cell
        notes: notes below the table
        summary: the conclusion, in a sentence
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    records: tuple[Mapping[str, Value], ...]
    notes: tuple[str, ...] = ()
    summary: str = ""
