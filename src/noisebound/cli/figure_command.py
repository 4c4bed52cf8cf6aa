"""``noisebound figure``: draw a figure of the paper."""

import csv
from pathlib import Path
from typing import Literal

from rich.markup import escape

from noisebound.errors import InvalidValueError
from noisebound.paper.figures import (
    noise_models_figure,
    rate_sweep_figure,
    sensitivity_figure,
    write_figure,
)
from noisebound.paper.protocol import COLUMNS
from noisebound.system.console import Console


def figure(
    name: Literal["sensitivity", "noise-models", "rate-sweep"],
    *,
    out: Path = Path(),
    table: Path = Path("reproduction/rate-sweep.csv"),
) -> None:
    """Draw a figure of the paper, as PNG and SVG.

    Parameters
    ----------
    name
        sensitivity: the limits between which a floor lies. noise-models: the inverse noise models
        of the losses. rate-sweep: accuracy by the noise rate that the bound is computed with.
    out
        The folder to write to.
    table
        For rate-sweep, the CSV file that `noisebound reproduce rate-sweep` wrote.
    """
    match name:
        case "sensitivity":
            drawn = sensitivity_figure()
        case "noise-models":
            drawn = noise_models_figure()
        case "rate-sweep":
            drawn = rate_sweep_figure(_records(table))
    written = write_figure(drawn, out, name)
    console = Console(soft_wrap=True, highlight=False)
    console.print(escape(f"written: {', '.join(map(str, written))}"))


def _records(table: Path) -> list[dict[str, str | float | None]]:
    foreign = InvalidValueError(f"{table} is not what  noisebound reproduce rate-sweep  writes")
    needed = {"method", "column", "believed_rate", "mean", "std"}
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            names, records = reader.fieldnames, [dict(record) for record in reader]
        for record in records:
            float(record["believed_rate"]), float(record["mean"]), float(record["std"] or 0)
            COLUMNS[record["column"]]
    except FileNotFoundError as error:
        raise InvalidValueError(
            f"there is no {table}: make it with  noisebound reproduce rate-sweep , and pass it as "
            "`table`"
        ) from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:  # not text, or another table
        raise foreign from error
    if not needed <= {*(names or needed)}:
        raise foreign
    if not records:
        raise InvalidValueError(f"{table} holds no finished runs")
    return records
