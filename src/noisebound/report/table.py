"""A table twice: as a reader sees it, and as records for a program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Cell:
    """What stands in a place of a table.

    Args:
        text: ours
        beside: the paper's, or other things to compare with
        value: to sort by
        is_best: of its column
        is_gain: the bound made it better
    """

    text: str
    beside: str = ""
    value: float | None = None
    is_best: bool = False
    is_gain: bool = False


EMPTY = Cell("–")


def number_cell(value: float | None, form: str, *, is_gain: bool = False) -> Cell:
    """A number that can be sorted by; empty without one."""
    return EMPTY if value is None else Cell(format(value, form), "", float(value), is_gain=is_gain)


@dataclass(frozen=True)
class Row:
    """A line of a table; a bounded one is shaded."""

    label: str
    cells: tuple[Cell, ...]
    is_shaded: bool = False


@dataclass(frozen=True)
class Table:
    """Rows and columns for a reader, records for a program, notes for both.

    Args:
        name: of the files it is written to
        title: says what it shows
        header: of the labels first, then of the cells
        rows: what a reader sees
        records: the same figures with all their digits, one a cell
        notes: what has to be known to read it
        summary: what it comes to, in a sentence
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    records: tuple[Mapping[str, Value], ...]
    notes: tuple[str, ...] = ()
    summary: str = ""
