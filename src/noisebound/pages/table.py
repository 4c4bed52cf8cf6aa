"""Tables: rows for a reader as Markdown and HTML, records for a program as CSV."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from noisebound.system.files import write_text

_MOST_IN_A_HEAT_MAP = 12  # classes; more do not fit on a page
_CONFUSIONS = 20  # rows of the table

Value: TypeAlias = str | float | int | None


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    beside: str = ""  # a number to compare with, such as the paper's; shown in parentheses
    value: float | None = None  # the number that the column is sorted by
    is_best: bool = False  # True if the cell is the best of its column
    is_gain: bool = False  # True if the bound made the result better
    share: float | None = None  # of a heat map, which colors the cell
    mark: tuple[int, int] | None = None  # the part of the text that is marked


EMPTY = Cell("–")


def number_cell(
    value: float | None, form: str, beside: float | None = None, *, is_gain: bool = False
) -> Cell:
    """Return the cell of a number in a format of :func:`format`; an empty cell for None."""
    if value is None:
        return EMPTY
    compared = "" if beside is None else format(beside, form)
    return Cell(format(value, form), compared, float(value), is_gain=is_gain)


class Row(NamedTuple):
    """A row of a table."""

    label: str  # heading of the row
    cells: tuple[Cell, ...]  # one per column after the first
    is_shaded: bool = False  # True to shade the row, as the rows of bounded losses are
    link: str = ""  # address of a page about the row


def pivot(
    cells: Mapping[tuple[Any, Any], Cell],
    rows: Mapping[Any, str],
    columns: Collection[Any],
    shaded: Collection[Any] = (),
) -> tuple[Row, ...]:
    """Return the rows of a table from its cells, whose keys are ``(row, column)``."""
    return tuple(
        Row(heading, tuple(cells.get((row, each), EMPTY) for each in columns), row in shaded)
        for row, heading in rows.items()
    )


@dataclass(frozen=True)
class Table:
    """A table: rows for a reader, records for a program, notes for both."""

    name: str  # the stem of the names of its files
    title: str
    header: tuple[str, ...]  # the heading of the row labels, then of each column
    rows: tuple[Row, ...]
    records: Sequence[Mapping[str, Value]] = ()  # with all digits, one record per cell
    notes: tuple[str, ...] = ()  # shown below the table
    summary: str = ""  # the conclusion, in a sentence

    @property
    def is_heat_map(self) -> bool:
        return any(cell.share is not None for row in self.rows for cell in row.cells)


def confusions(
    title: str, row: str, column: str, names: Sequence[str], shares: Sequence[Sequence[float]]
) -> Table:
    """Return a matrix of shares as a heat map, or the largest of many in a list."""
    if len(names) <= _MOST_IN_A_HEAT_MAP:
        rows = [
            Row(name, tuple(Cell(f"{100 * each:.0f}", "", each, share=each) for each in of_row))
            for name, of_row in zip(names, shares, strict=True)
        ]
        return Table("confusions", f"{title}, %", (f"{row} ↓ {column} →", *names), tuple(rows))
    pairs = permutations(range(len(names)), 2)
    largest = sorted(((shares[k][other], k, other) for k, other in pairs), reverse=True)
    rows = [
        Row(names[k], (Cell(names[other]), number_cell(share, ".1%")))
        for share, k, other in largest[:_CONFUSIONS]
    ]
    title += ": the most frequent confusions"
    return Table("confusions", title, (row, column, "share"), tuple(rows))


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write the table as Markdown and CSV, each whole or not at all, and return the paths."""
    texts = {".md": to_markdown(table), ".csv": to_csv(table)}
    for suffix, text in texts.items():
        write_text(folder / f"{table.name}{suffix}", text)
    return [folder / f"{table.name}{suffix}" for suffix in texts]


def to_markdown(table: Table) -> str:
    """Return aligned Markdown: the best of a column is bold, and a gain has an arrow."""
    return to_text(table, markdown=True)


def to_text(table: Table, *, markdown: bool = False) -> str:
    """Return aligned text for a terminal: the best of a column has a star, and a gain an arrow."""
    escaped, best = (_escaped, "**{}**") if markdown else (str, "{}*")

    def shown(cell: Cell) -> str:
        text = best.format(escaped(cell.text)) if cell.is_best else escaped(cell.text)
        beside = f" ({escaped(cell.beside)})" if cell.beside else ""
        return f"{text}{' ↑' if cell.is_gain else ''}{beside}"

    rows = [list(map(escaped, table.header))]
    rows += [[escaped(row.label), *map(shown, row.cells)] for row in table.rows]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    if markdown:
        rows.insert(1, ["-" * width for width in widths])
    lines = [f"**{escaped(table.title)}**" if markdown else table.title, ""]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(cells)} |" if markdown else "  ".join(cells).rstrip())
    if table.summary:
        lines += ["", escaped(table.summary)]
    if table.notes:
        notes = (each if markdown else each.replace("bold:", "*:") for each in table.notes)
        lines += ["", *(f"- {escaped(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Escape every character that would end a cell or begin emphasis."""
    return re.sub(r"[\\|*_<]", r"\\\g<0>", text)


def to_csv(table: Table) -> str:
    """Return one line per record, below a line with the names of their fields."""
    if not table.records:
        return ""
    return pl.from_dicts(table.records, infer_schema_length=None).write_csv()
