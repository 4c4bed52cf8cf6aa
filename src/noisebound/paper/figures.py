"""The paper's figures, drawn with the library's functions, and the curves of trainings."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from noisebound.bounds import entropy_interval
from noisebound.losses import (
    CrossEntropy,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    LikelihoodLoss,
    Loss,
    MeanAbsoluteError,
    SymmetricCrossEntropy,
)
from noisebound.monitor import memorizing_since
from noisebound.paper.frame import FinishedRun
from noisebound.paper.protocol import BASELINES, BOUNDED, COLUMNS, Column, label_of
from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY, save_figure
from noisebound.runs.keeper import read_metrics

Curve: TypeAlias = NDArray[np.float64]
RATES = np.linspace(0.005, 0.5, 100)
_CLASSES = (10, 200)
# Dashes distinguish the lines in print without color.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))
_COLORS = (BLUE, ORANGE, GREEN, SKY, BLACK)
_PANELS = {
    "train_loss": "training loss and its floor",
    "memorized": "wrong labels reproduced, %",
    "test_top1": "clean test accuracy, %",
}


def sensitivity(loss: Loss, num_classes: int) -> tuple[Curve, Curve]:
    """Return the limits of a loss's entropy for noise of any structure, at `RATES`.

    The lower limit is the entropy of pairwise noise. The upper one is that of symmetric noise, the
    noise-bound. Their ratio is the factor by which the noise-bound may be too high.
    """
    limits = [entropy_interval(loss, float(rate), num_classes) for rate in RATES]
    lower, upper = np.array(limits, dtype=np.float64).T
    return lower, upper


def sensitivity_figure() -> Figure:
    """Return the figure of the limits of CE, SCE and GCE at 10 and 200 classes, and their ratio."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    losses = {
        "CE": CrossEntropy(),
        "SCE, A = 8": SymmetricCrossEntropy(A=8.0),
        "GCE, a = 0.4": GeneralizedCrossEntropy(a=0.4),
    }
    for (above, below), classes in zip(axes.T, _CLASSES, strict=True):
        for (name, loss), color, dash in zip(
            losses.items(), (ORANGE, GREEN, BLUE), _DASHES, strict=False
        ):
            lower, upper = sensitivity(loss, classes)
            for limit, label in ((upper, name), (lower, None)):
                above.plot(RATES, limit, color=color, linestyle=dash, label=label)
            above.fill_between(RATES, lower, upper, color=color, alpha=0.15)
            below.plot(RATES, upper / lower, color=color, linestyle=dash, label=name)
        above.set(title=f"{classes} classes", ylabel="entropy: symmetric and pairwise")
        below.set(xlabel="noise rate", ylabel="upper limit / lower limit")
        above.legend()
        below.legend()
    return figure


def best_prediction(loss: LikelihoodLoss | ForwardCrossEntropy, p: Curve) -> Curve:
    """Return the ``q`` of least expected loss for each ``p``, with two classes: ``f⁻¹(p)``."""
    truth = torch.from_numpy(np.stack([p, 1 - p], axis=1))
    if loss.noise_model is None:
        assert isinstance(loss, LikelihoodLoss)
        best = loss.best_prediction(truth)
        assert best is not None
        return np.asarray(best[:, 0])
    # A linear noise model cannot produce every p; beyond its range the nearest vertex is best.
    return np.asarray(loss.noise_model.inverse(truth)[:, 0].clamp(0, 1))


def noise_models_figure() -> Figure:
    """Return the figure of ``f⁻¹`` with two classes: the ``q`` of least expected loss at ``p``."""
    losses: Mapping[str, LikelihoodLoss | ForwardCrossEntropy] = {
        "SCE, A = 8": SymmetricCrossEntropy(A=8.0),
        "GCE, a = 0.7": GeneralizedCrossEntropy(a=0.7),
        "FCE, η = 0.4": ForwardCrossEntropy.symmetric(0.4, 2),
        "CE": CrossEntropy(),
        "MAE": MeanAbsoluteError(),
    }
    p = np.linspace(0.001, 0.999, 999)
    figure = Figure(figsize=(5.6, 4.8), layout="constrained")
    axes = figure.subplots()
    for (name, loss), color, dash in zip(
        losses.items(), (GREEN, BLUE, SKY, ORANGE, BLACK), _DASHES, strict=True
    ):
        axes.plot(p, best_prediction(loss, p), color=color, linestyle=dash, label=name)
    axes.set(
        xlabel="true probability p",
        ylabel="f⁻¹(p): the q of least expected loss",
        xlim=(0, 1),
        ylim=(-0.02, 1.02),
    )
    axes.legend()
    return figure


def rate_sweep_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Return the figure of accuracy over the given noise rate, with a panel per method and column.

    With too low a rate, a network memorizes; with too high a rate, it does not learn.

    Args:
        records: the records of the table of rates, or the lines of its CSV file
    """
    panels: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        panels.setdefault((record["method"], record["column"]), []).append(record)
    figure = Figure(figsize=(4.2 * len(panels) + 0.8, 3.8), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, ((method, name), points), color in zip(
        grid, panels.items(), cycle((BLUE, ORANGE, SKY, BLACK)), strict=False
    ):
        column = COLUMNS[name]
        rates, means, stds = (
            [float(point[field] or 0) for point in points]
            for field in ("believed_rate", "mean", "std")
        )
        axes.errorbar(rates, means, yerr=stds, color=color, marker="o", capsize=3)
        true = column.noise_rate
        axes.axvline(true, color=GREEN, linestyle=":", label=f"true rate {true:g}")
        axes.set(
            title=f"{label_of(method)}, {column.title}",
            xlabel="noise rate that the bound is computed with",
            ylabel="clean test accuracy, %",
        )
        axes.legend()
    return figure


def epoch_figure(runs: Sequence[FinishedRun], column: Column) -> Figure | None:
    """Return a row of plots per loss, plain and bounded, and one for all other methods."""
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
    """Mark the epoch after which plain training stays below the floor of its bounded pair."""
    since = memorizing_since(plain["train_loss"].to_list(), floor)
    if since is not None:
        epoch = plain["epoch"][since - 1]
        label = f"memorizing since epoch {epoch}"
        axes.axvline(epoch, color=ORANGE, linestyle="--", linewidth=1, label=label)


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG; return both paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        save_figure(figure, path)
    return paths
