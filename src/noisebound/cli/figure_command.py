"""``noisebound figure``: draw a figure of the paper."""

from pathlib import Path
from typing import Any

from noisebound.errors import InvalidValueError
from noisebound.paper import FigureName
from noisebound.system.console import print_text


def figure(
    name: FigureName, *, out: Path = Path(), table: Path = Path("reproduction/rate-sweep.csv")
) -> None:
    """Draw a figure of the paper, as PNG and SVG.

    Parameters
    ----------
    name
        sensitivity: the range of the floor for noise of any structure. noise-models: the losses'
            inverse noise models. rate-sweep: accuracy over the noise rate assumed for the bound.
    out
        The folder to write to.
    table
        The CSV file written by `noisebound reproduce rate-sweep`, for the figure rate-sweep.
    """
    from noisebound.paper import figures

    match name:
        case "sensitivity":
            drawn = figures.sensitivity_figure()
        case "noise-models":
            drawn = figures.noise_models_figure()
        case "rate-sweep":
            drawn = figures.rate_sweep_figure(_records(table))
    print_text(f"written: {', '.join(map(str, figures.write_figure(drawn, out, name)))}")


def _records(table: Path) -> list[dict[str, Any]]:
    import polars as pl

    from noisebound.paper.protocol import COLUMNS

    if not table.exists():
        raise InvalidValueError(
            f"there is no {table}: make it with  noisebound reproduce rate-sweep , and pass it as "
            "`table`"
        )
    text, number = ("method", "column"), ("believed_rate", "mean", "std")
    try:
        frame = pl.read_csv(table, infer_schema=False).select(
            *text, *(pl.col(name).cast(pl.Float64) for name in number)
        )
    except pl.exceptions.PolarsError as error:  # not text, or another table
        raise InvalidValueError(
            f"{table} is not a table of  noisebound reproduce rate-sweep : {error}"
        ) from error
    frame = frame.filter(pl.col("column").is_in(list(COLUMNS)))
    if frame.is_empty():
        raise InvalidValueError(f"{table} holds no finished runs of the paper's columns")
    return frame.to_dicts()
