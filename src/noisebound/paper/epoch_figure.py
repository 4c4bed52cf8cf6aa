"""Curves of the trainings on a column, one line per method, epoch by epoch."""

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisebound.monitor import memorizing_since
from noisebound.paper.columns import Column
from noisebound.paper.frame import FinishedRun
from noisebound.paper.methods import BASELINES, BOUNDED, label_of
from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY
from noisebound.runs.keeper import read_metrics

_PANELS = {
    "train_loss": "training loss and its floor",
    "memorized": "wrong labels reproduced, %",
    "test_top1": "clean test accuracy, %",
}
_COLORS = (BLUE, ORANGE, GREEN, SKY, BLACK)
_DASHES = ("-", "--", ":")


def epoch_figure(runs: Sequence[FinishedRun], column: Column) -> Figure | None:
    """Return one row of plots per loss, plain and bounded, and one row for all other methods."""
    here = [
        run
        for run in runs
        if run.config.column == column.name
        and run.config.training.bound_offset == 0
        and run.config.given_rate == run.config.noise_rate
    ]
    floors = {run.config.training.loss: run.result.bound for run in here}
    rows = [*((loss, f"{loss}+b") for loss in BOUNDED), BASELINES]
    rows = [found for row in rows if (found := tuple(m for m in row if m in floors))]
    if not rows:
        return None
    curves = _mean_curves(here)
    figure = Figure(figsize=(11, 2.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(_PANELS), squeeze=False, sharex=True)
    for axes, methods in zip(grid, rows, strict=True):
        for number, method in enumerate(methods):
            _draw(axes, method, curves.filter(method=method), number)
        floor = floors[methods[-1]]
        if floor is not None:
            axes[0].axhline(floor, color=BLACK, linestyle=":", label="floor")
            if methods[0] in BOUNDED:
                _mark_memorization(axes[0], curves.filter(method=methods[0]), floor)
        axes[0].legend(fontsize=7, ncols=1 + len(methods) // 4)
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    return figure


def _mean_curves(runs: Sequence[FinishedRun]) -> pl.DataFrame:
    """Return the mean over seeds of each metric, by method and epoch."""
    rows = [
        (run.config.training.loss, epoch.epoch, *(getattr(epoch, name) for name in _PANELS))
        for run in runs
        for epoch in read_metrics(run.folder.metrics)
    ]
    types = {"method": pl.String, "epoch": pl.Int64} | dict.fromkeys(_PANELS, pl.Float64)
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return frame.group_by("method", "epoch").mean().sort("epoch")


def _draw(panels: Sequence[Axes], method: str, curves: pl.DataFrame, number: int) -> None:
    if method in BASELINES:
        color, dash = _COLORS[number % len(_COLORS)], _DASHES[number // len(_COLORS)]
    else:
        color, dash = (ORANGE, "--") if method in BOUNDED else (BLUE, "-")
    for axes, (name, title) in zip(panels, _PANELS.items(), strict=True):
        known = curves.select("epoch", pl.col(name) * (1 if name == "train_loss" else 100))
        epochs, values = known.drop_nulls().get_columns()
        axes.plot(epochs, values, color=color, linestyle=dash, label=label_of(method))
        axes.set_title(title, fontsize=9)


def _mark_memorization(axes: Axes, plain: pl.DataFrame, floor: float) -> None:
    """Mark the first epoch since which plain training is below the floor of its bounded pair."""
    since = memorizing_since(plain["train_loss"].to_list(), floor)
    if since is not None:
        epoch = plain["epoch"][since - 1]
        label = f"memorizing since epoch {epoch}"
        axes.axvline(epoch, color=ORANGE, linestyle="--", linewidth=1, label=label)
