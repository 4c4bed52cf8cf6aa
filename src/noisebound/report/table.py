"""Tables: rows for a reader, records for a program, as plain text, Markdown and CSV."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from noisebound.system.files import write_text

Value: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  # the text of the cell
    beside: str = ""  # a number to compare with, such as the paper's; shown in parentheses
    value: float | None = None  # the number that the column is sorted by
    is_best: bool = False  # True if the cell is the best of its column
    is_gain: bool = False  # True if the bound made the result better


EMPTY = Cell("–")


def number_cell(value: float | None, form: str, *, is_gain: bool = False) -> Cell:
    """Return the cell of a number in a format of :func:`format`; an empty cell for None."""
    return EMPTY if value is None else Cell(format(value, form), "", float(value), is_gain=is_gain)


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    label: str  # heading of the row
    cells: tuple[Cell, ...]  # one per column after the first
    is_shaded: bool = False  # True to shade the row, as the rows of bounded losses are


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


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write the table as Markdown and CSV, each whole or not at all, and return the paths."""
    written = []
    for suffix, text in ((".md", to_markdown(table)), (".csv", to_csv(table))):
        path = folder / f"{table.name}{suffix}"
        write_text(path, text)
        written.append(path)
    return written


def to_text(table: Table) -> str:
    """Return plain text for a terminal: the best of a column has a star, and a gain an arrow."""
    rows = [table.header, *((row.label, *map(_plain_cell, row.cells)) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title, ""]
    for row in rows:
        padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
    if table.summary:
        lines += ["", table.summary]
    if table.notes:
        # Notes explain what is bold in the other formats.
        lines += ["", *(f"- {note.replace('bold:', '*:')}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _plain_cell(cell: Cell) -> str:
    best, arrow = "*" if cell.is_best else "", " ↑" if cell.is_gain else ""
    return cell.text + best + arrow + (f" ({cell.beside})" if cell.beside else "")


def to_markdown(table: Table) -> str:
    """Return Markdown: the best of a column is bold, and a gain has an arrow."""
    lines = [
        f"**{_markdown_text(table.title)}**",
        "",
        f"| {' | '.join(map(_markdown_text, table.header))} |",
        "|" + "---|" * len(table.header),
    ]
    for row in table.rows:
        cells = " | ".join(map(_markdown_cell, row.cells))
        lines.append(f"| {_markdown_text(row.label)} | {cells} |")
    if table.summary:
        lines += ["", _markdown_text(table.summary)]
    if table.notes:
        lines += ["", *(f"- {_markdown_text(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_text(cell.text)
    text = f"**{text}**" if cell.is_best else text
    arrow = " ↑" if cell.is_gain else ""
    beside = f" ({_markdown_text(cell.beside)})" if cell.beside else ""
    return text + arrow + beside


def _markdown_text(text: str) -> str:
    """Return the text with every character escaped that would end a cell or begin emphasis."""
    for character in r"\|*_<":
        text = text.replace(character, f"\\{character}")
    return text


def to_csv(table: Table) -> str:
    """Return one line per record, below a line with the names of their fields."""
    stream = io.StringIO()
    if not table.records:
        return ""
    names = list(dict.fromkeys(name for record in table.records for name in record))
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records)
    return stream.getvalue()
