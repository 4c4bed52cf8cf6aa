"""Pictures of a training run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisebound.data.folders import written_whole

# Okabe and Ito's colors, which the color-blind can tell apart
BLUE, ORANGE, GREEN, SKY = "#0072B2", "#D55E00", "#009E73", "#56B4E9"
BLACK = "#000000"


def plot_training(history: Sequence[dict[str, Any]], path: Path) -> None:
    """`training_figure` as a PNG."""
    save_figure(training_figure(history), path)


def training_figure(history: Sequence[dict[str, Any]]) -> Figure:
    """Training loss against its floor, and the accuracies, epoch by epoch."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    measured = [record for record in history if record.keys() >= history[-1].keys()]
    epochs = [record["epoch"] for record in measured]
    draw_loss_against_floor(left, {"training loss": history})
    lines = {
        "validation_top1": ("noisy validation", BLUE),
        "test_top1": ("clean test", GREEN),
        "memorized": ("wrong labels reproduced", ORANGE),
    }
    for name, (label, color) in lines.items():
        if name in history[-1]:
            right.plot(
                epochs, [100 * record[name] for record in measured], color=color, label=label
            )
        if f"averaged_{name}" in history[-1]:
            values = [100 * record[f"averaged_{name}"] for record in measured]
            right.plot(
                epochs, values, color=color, linestyle="--", label=f"{label}, averaged weights"
            )
    right.set(xlabel="epoch", ylabel="%", title="accuracy")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    if right.lines:
        right.legend()
    return figure


def draw_loss_against_floor(axes: Axes, runs: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """The raw training loss of each run, and the floor as a dotted line."""
    for (label, history), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        epochs = [record["epoch"] for record in history]
        axes.plot(epochs, [record["train_loss"] for record in history], color=color, label=label)
    floors = {history[-1]["bound"] for history in runs.values()} - {None}
    for floor in floors:
        axes.axhline(floor, color=BLACK, linestyle=":", label=f"floor {floor:.3f}")
    axes.set(xlabel="epoch", ylabel="mean loss", title="training loss against its floor")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def save_figure(figure: Figure, path: Path) -> None:
    """Whole or not at all."""
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix.lstrip("."), dpi=150)
