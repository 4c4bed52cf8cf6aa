"""Tables as plain text, Markdown and CSV."""

import csv
import io
from pathlib import Path

from noisebound.report.table import Cell, Table
from noisebound.system.files import write_text


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
