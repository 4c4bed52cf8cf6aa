"""Colors, axes and files that all plots share."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisebound.system.files import written_whole

# Okabe and Ito's colors, which color-blind readers can distinguish.
BLUE, ORANGE, GREEN, SKY = "#0072B2", "#D55E00", "#009E73", "#56B4E9"
BLACK = "#000000"


def one_panel() -> tuple[Figure, Axes]:
    """Return a figure that can be read on a phone."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    return figure, figure.subplots()


def finish_epoch_axes(axes: Axes, title: str, unit: str) -> None:
    """Label axes that run over epochs, with a legend if there is anything to name."""
    axes.set(xlabel="epoch", ylabel=unit, title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.lines:
        axes.legend()


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of its extension, whole or not at all."""
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix.lstrip("."), dpi=150)
