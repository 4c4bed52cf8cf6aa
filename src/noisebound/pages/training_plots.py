"""Plots of trainings by epoch: losses with their floor, and accuracies."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, finish_epoch_axes
from noisebound.training.metrics import EpochMetrics, Evaluated

_LINES: dict[Evaluated, tuple[str, str]] = {
    "validation_top1": ("noisy validation", BLUE),
    "test_top1": ("clean test", GREEN),
    "memorized": ("wrong labels reproduced", ORANGE),
}


def training_figure(epochs: Sequence[EpochMetrics]) -> Figure:
    """Return a figure of the training loss against its floor, beside the accuracies."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_loss_against_floor(left, {"training loss": epochs})
    draw_accuracies(right, epochs)
    return figure


def draw_accuracies(axes: Axes, epochs: Sequence[EpochMetrics]) -> None:
    """Draw all accuracies of one training; those of averaged weights are dashed."""
    for name, (label, color) in _LINES.items():
        for averaged, dash, weights in ((False, "-", ""), (True, "--", ", averaged weights")):
            _draw_percent(
                axes, epochs, name, averaged, color=color, dash=dash, label=label + weights
            )
    finish_epoch_axes(axes, "accuracy", "%")


def draw_comparison(
    axes: Axes, runs: Mapping[str, Sequence[EpochMetrics]], name: Evaluated, title: str
) -> None:
    """Draw one metric of several trainings, for the averaged weights if there are any."""
    for (label, epochs), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        averaged = epochs[-1].evaluated(name, averaged=True) is not None
        _draw_percent(axes, epochs, name, averaged, color=color, dash="-", label=label)
    finish_epoch_axes(axes, title, "%")


def draw_loss_against_floor(
    axes: Axes,
    runs: Mapping[str, Sequence[EpochMetrics]],
    floor: float | None = None,
    memorizing_since: int | None = None,
) -> None:
    """Draw the training loss of each run, the floor, and the first epoch of memorization.

    The default of the floor is the bounds of the runs.
    """
    for (label, epochs), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        numbers, losses = zip(*((each.epoch, each.train_loss) for each in epochs), strict=True)
        axes.plot(numbers, losses, color=color, label=label)
    floors = {epochs[-1].bound for epochs in runs.values()} if floor is None else {floor}
    known = [level for level in floors if level is not None]
    for level in known:
        axes.axhline(level, color=BLACK, linestyle=":", label=f"floor {level:.3f}")
    if memorizing_since is not None:
        label = f"memorizing since epoch {memorizing_since}"
        axes.axvline(memorizing_since, color=ORANGE, linestyle="--", linewidth=1, label=label)
    title = "training loss against its floor" if known else "training loss"
    finish_epoch_axes(axes, title, "mean loss")


def _draw_percent(
    axes: Axes,
    epochs: Sequence[EpochMetrics],
    name: Evaluated,
    averaged: bool,
    *,
    color: str,
    dash: str,
    label: str,
) -> None:
    points = [
        (each.epoch, 100 * value)
        for each in epochs
        if (value := each.evaluated(name, averaged=averaged)) is not None
    ]
    if points:
        numbers, values = zip(*points, strict=True)
        axes.plot(numbers, values, color=color, linestyle=dash, label=label)
