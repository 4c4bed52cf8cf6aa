"""Plots of a training. A history is a list of records, one per epoch, of what was evaluated."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisebound.files import written_whole

# Okabe and Ito's colors, which color-blind readers can tell apart
BLUE, ORANGE, GREEN, SKY = "#0072B2", "#D55E00", "#009E73", "#56B4E9"
BLACK = "#000000"


def plot_training(history: Sequence[dict[str, Any]], path: Path) -> None:
    """Write :func:`training_figure` in the format that the path's suffix names."""
    save_figure(training_figure(history), path)


def training_figure(history: Sequence[dict[str, Any]]) -> Figure:
    """Return the figure of the training loss against its floor, and of the accuracies."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_loss_against_floor(left, {"training loss": history})
    draw_accuracies(right, history)
    return figure


def one_panel() -> tuple[Figure, Axes]:
    """Return a figure with one panel, small enough to be read on a phone."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    return figure, figure.subplots()


def draw_accuracies(axes: Axes, history: Sequence[dict[str, Any]]) -> None:
    """Draw the accuracies on validation, test and mislabeled examples; averaged weights dashed."""
    evaluated = [record for record in history if record.keys() >= history[-1].keys()]
    epochs = [record["epoch"] for record in evaluated]
    lines = {
        "validation_top1": ("noisy validation", BLUE),
        "test_top1": ("clean test", GREEN),
        "memorized": ("wrong labels reproduced", ORANGE),
    }
    for name, (label, color) in lines.items():
        for prefix, dash, weights in (("", "-", ""), ("averaged_", "--", ", averaged weights")):
            if prefix + name in history[-1]:
                values = [100 * record[prefix + name] for record in evaluated]
                axes.plot(epochs, values, color=color, linestyle=dash, label=label + weights)
    _finish(axes, "accuracy", "%")


def draw_comparison(
    axes: Axes, runs: Mapping[str, Sequence[dict[str, Any]]], name: str, title: str
) -> None:
    """Draw one accuracy of each run, in percent; that of the averaged weights if there are any.

    Args:
        axes: the axes to draw on
        runs: the history of each run, by its label
        name: name of the accuracy in the records, such as ``"test_top1"``
        title: title of the axes
    """
    for (label, history), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        key = f"averaged_{name}" if f"averaged_{name}" in history[-1] else name
        evaluated = [record for record in history if key in record]
        epochs = [record["epoch"] for record in evaluated]
        axes.plot(epochs, [100 * record[key] for record in evaluated], color=color, label=label)
    _finish(axes, title, "%")


def draw_loss_against_floor(
    axes: Axes,
    runs: Mapping[str, Sequence[dict[str, Any]]],
    floor: float | None = None,
    memorizing_since: int | None = None,
) -> None:
    """Draw the training loss of each run before bounding, the floor, and where memorizing begins.

    Args:
        axes: the axes to draw on
        runs: the history of each run, by its label
        floor: level of the dotted line; None for the bounds of the runs
        memorizing_since: the epoch from which on the network memorizes; None if it does not
    """
    for (label, history), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        epochs = [record["epoch"] for record in history]
        axes.plot(epochs, [record["train_loss"] for record in history], color=color, label=label)
    floors = {history[-1]["bound"] for history in runs.values()} if floor is None else {floor}
    for level in floors - {None}:
        axes.axhline(level, color=BLACK, linestyle=":", label=f"floor {level:.3f}")
    if memorizing_since is not None:
        label = f"memorizing since epoch {memorizing_since}"
        axes.axvline(memorizing_since, color=ORANGE, linestyle="--", linewidth=1, label=label)
    _finish(axes, "training loss against its floor", "mean loss")


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set(xlabel="epoch", ylabel=unit, title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.lines:
        axes.legend()


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the path's suffix names, whole or not at all."""
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix.lstrip("."), dpi=150)
