"""Measure many cells, each once, and show them as a table: shared by the research scripts.

A cell is a dict such as ``{"column": "mnist-0.4", "method": "ce", "seed": 0}``. Its measurements
are kept as a JSON file in ``OUT/cells``, so that an interrupted script continues.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from joblib import Parallel, delayed

from noisebound.paper.run import DataSources

Cell = Mapping[str, Any]


def argument_parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all research scripts share."""
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    parser.add_argument("--columns", nargs="+", help="columns, data sets or settings")
    parser.add_argument("--methods", nargs="+", help="rows of the table")
    parser.add_argument("--seeds", type=int, default=3, help="the number of seeds")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at once")
    parser.add_argument("--out", type=Path, required=True, help="the folder for cells and tables")
    parser.add_argument("--data-dir", type=Path, help="where published data is looked for first")
    parser.add_argument("--source", nargs="+", default=[], help="DATASET=FILE for other data")
    parser.add_argument("--backbone", nargs="+", default=[], help="onnx:FILE, hf:FOLDER")
    parser.add_argument("--quick", action="store_true", help="seconds, on tiny data: only a check")
    return parser


def sources_of(options: argparse.Namespace) -> DataSources:
    """Return where the data is."""
    paths = {name: Path(path) for name, _, path in (each.partition("=") for each in options.source)}
    return DataSources(options.data_dir, paths, tuple(options.backbone))


def measure(
    cells: Sequence[Cell], measured: Callable[[Cell], Mapping[str, Any]], out: Path, jobs: int = 1
) -> pl.DataFrame:
    """Measure the cells that have no file yet, and return a row for each cell."""
    rows = Parallel(n_jobs=jobs)(delayed(_once)(cell, measured, out) for cell in cells)
    return pl.DataFrame(rows, infer_schema_length=None)


def key_of(cell: Cell) -> str:
    """Return the name of a cell's file, without its ending."""
    return "-".join(str(value) for value in cell.values()).replace(" ", "_")


def _once(
    cell: Cell, measured: Callable[[Cell], Mapping[str, Any]], out: Path
) -> Mapping[str, Any]:
    path = out / "cells" / f"{key_of(cell)}.json"
    if not path.exists():
        torch.set_num_threads(1)
        found = measured(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.rename(path)  # whole or not at all
    return {**cell, **json.loads(path.read_text(encoding="utf-8"))}


def table(
    frame: pl.DataFrame,
    row: str,
    column: str,
    value: str,
    *,
    labels: Mapping[str, str] | None = None,
    factor: float = 1.0,
    form: str = ".3f",
) -> str:
    """Return a Markdown table of means ± deviations over seeds, with the mean of each row."""
    values: dict[tuple[str, str], list[float]] = {}
    for each in frame.drop_nulls(value).to_dicts():
        values.setdefault((each[row], each[column]), []).append(factor * each[value])
    rows, columns = (list(dict.fromkeys(place[axis] for place in values)) for axis in (0, 1))
    lines = [f"| {row} | {' | '.join(columns)} | mean |", "|---" * (len(columns) + 2) + "|"]
    for name in rows:
        found = [values.get((name, each), []) for each in columns]
        cells = [spread(each, form) for each in found]
        is_whole = all(found)
        mean = format(statistics.fmean(map(statistics.fmean, found)), form) if is_whole else "–"
        lines.append(f"| {(labels or {}).get(name, name)} | {' | '.join(cells)} | {mean} |")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], form: str) -> str:
    """Return the mean of some values, with their deviation if there are several."""
    if not values:
        return "–"
    text = format(statistics.fmean(values), form)
    return text + (f" ± {format(statistics.stdev(values), form)}" if len(values) > 1 else "")


def write(frame: pl.DataFrame, text: str, out: Path, name: str) -> None:
    """Write every seed as CSV, and print the table."""
    out.mkdir(parents=True, exist_ok=True)
    frame.write_csv(out / f"{name}.csv")
    print(text)
