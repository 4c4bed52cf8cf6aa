"""``noisebound figure``: draw a figure of the paper."""

import json
from pathlib import Path
from typing import Literal

from rich.markup import escape

from noisebound.console import Console
from noisebound.errors import InvalidValueError
from noisebound.paper.outcome.rate_sweep import rate_curves
from noisebound.report.figures import (
    noise_models_figure,
    rate_sweep_figure,
    sensitivity_figure,
    write_figure,
)


def figure(
    name: Literal["sensitivity", "noise-models", "rate-sweep"],
    *,
    out: Path = Path(),
    table: Path = Path("reproduction/rate-sweep.json"),
) -> None:
    """Draw a figure of the paper, as PNG and SVG.

    Parameters
    ----------
    name
        sensitivity: the limits between which a floor lies. noise-models: the inverse noise models
        of the losses. rate-sweep: the accuracy of runs by the noise rate that they believed.
    out
        The folder to write to.
    table
        For rate-sweep, the JSON file that `noisebound reproduce rate-sweep` wrote.
    """
    match name:
        case "sensitivity":
            drawn = sensitivity_figure()
        case "noise-models":
            drawn = noise_models_figure()
        case "rate-sweep":
            drawn = rate_sweep_figure(rate_curves(_records(table)))
    written = write_figure(drawn, out, name)
    console = Console(soft_wrap=True, highlight=False)
    console.print(escape(f"written: {', '.join(map(str, written))}"))


def _records(table: Path) -> list[dict[str, str | float | None]]:
    foreign = InvalidValueError(f"{table} is not what  noisebound reproduce rate-sweep  writes")
    try:
        records = json.loads(table.read_text(encoding="utf-8"))["records"]
    except FileNotFoundError as error:
        raise InvalidValueError(
            f"there is no {table}: make it with  noisebound reproduce rate-sweep , and pass it as "
            "`table`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:  # not text, not JSON, or no object
        raise foreign from error
    if not isinstance(records, list) or not all(_is_record(record) for record in records):
        raise foreign
    if not records:
        raise InvalidValueError(f"{table} holds no finished runs")
    return records


def _is_record(record: object) -> bool:
    needed = {"method", "column", "believed_rate", "mean", "std"}
    return isinstance(record, dict) and needed <= record.keys()
