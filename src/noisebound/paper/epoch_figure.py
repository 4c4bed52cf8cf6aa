"""Curves of the trainings on a column, one line per method, epoch by epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisebound.catalog import LossName
from noisebound.monitor import memorizing_since
from noisebound.paper.columns import Column
from noisebound.paper.frame import FinishedRun
from noisebound.paper.methods import BASELINES, BOUNDED, label_of
from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY
from noisebound.runs.metrics_file import read_metrics
from noisebound.training.metrics import EpochMetrics

_PANELS = (
    ("train_loss", "training loss and its floor"),
    ("memorized", "wrong labels reproduced, %"),
    ("test_top1", "clean test accuracy, %"),
)
_COLORS = (BLUE, ORANGE, GREEN, SKY, BLACK)
_DASHES = ("-", "--", ":")


def epoch_figure(runs: Sequence[FinishedRun], column: Column) -> Figure | None:
    """Return one row of plots per loss, plain and bounded, and one row for all other methods."""
    rows = [*((loss, f"{loss}+b") for loss in BOUNDED), BASELINES]
    curves = [
        {method: found for method in row if (found := _curves(runs, column, method))}
        for row in rows
    ]
    curves = [row for row in curves if row]
    if not curves:
        return None
    figure = Figure(figsize=(11, 2.4 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), len(_PANELS), squeeze=False, sharex=True)
    for axes, row in zip(grid, curves, strict=True):
        for number, (method, lines) in enumerate(row.items()):
            is_pair = LossName.parse(method).spec.table_role == "bounded"
            _draw(axes, method, lines, number, is_pair)
        _mark_memorization(axes[0], row)
        axes[0].legend(fontsize=7, ncols=1 + len(row) // 4)
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    return figure


@dataclass(frozen=True)
class _Curves:
    """The mean over seeds of each metric, epoch by epoch, and the floor."""

    lines: dict[str, tuple[list[int], list[float]]]
    bound: float | None


def _curves(runs: Sequence[FinishedRun], column: Column, method: str) -> _Curves | None:
    runs = [
        run
        for run in runs
        if (run.config.column, run.config.training.loss) == (column.name, method)
        and run.config.training.bound_offset == 0
        and run.config.given_rate == run.config.noise_rate
    ]
    if not runs:
        return None
    histories = [read_metrics(run.folder.metrics) for run in runs]
    lines = {name: _mean_curve(histories, name) for name, _ in _PANELS}
    return _Curves(lines, runs[0].result.bound)


def _draw(panels: Sequence[Axes], method: str, curves: _Curves, number: int, is_pair: bool) -> None:
    if is_pair:
        color, dash = (BLUE, "-") if LossName.parse(method).is_bounded else (ORANGE, "--")
    else:
        color, dash = _COLORS[number % len(_COLORS)], _DASHES[number // len(_COLORS)]
    for axes, (name, title) in zip(panels, _PANELS, strict=True):
        epochs, means = curves.lines[name]
        factor = 1 if name == "train_loss" else 100
        values = [factor * mean for mean in means]
        axes.plot(epochs, values, color=color, linestyle=dash, label=label_of(method))
        axes.set_title(title, fontsize=9)
    if curves.bound is not None:
        panels[0].axhline(curves.bound, color=BLACK, linestyle=":", label="floor")


def _mark_memorization(axes: Axes, row: Mapping[str, _Curves]) -> None:
    """Mark the epoch since when the plain one of a pair lies below the floor of the bounded one."""
    floor = next((curves.bound for curves in row.values() if curves.bound is not None), None)
    plain = next((curves for method, curves in row.items() if method in BOUNDED), None)
    if floor is None or plain is None:
        return
    epochs, losses = plain.lines["train_loss"]
    since = memorizing_since(losses, floor)
    if since is not None:
        label = f"memorizing since epoch {epochs[since - 1]}"
        axes.axvline(epochs[since - 1], color=ORANGE, linestyle="--", linewidth=1, label=label)


def _mean_curve(
    histories: Sequence[list[EpochMetrics]], name: str
) -> tuple[list[int], list[float]]:
    values: dict[int, list[float]] = {}
    for history in histories:
        for metrics in history:
            value = getattr(metrics, name)
            if value is not None:
                values.setdefault(metrics.epoch, []).append(value)
    return list(values), [sum(each) / len(each) for each in values.values()]
