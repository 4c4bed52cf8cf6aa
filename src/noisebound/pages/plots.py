"""Plots: losses with their floor and accuracies by epoch, and the evidence of a search."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisebound.search.choice import Choice
from noisebound.search.evidence import Evidence
from noisebound.search.recipes import RECIPES
from noisebound.system.files import written_whole
from noisebound.training.metrics import EpochMetrics, Evaluated

# Okabe and Ito's colors, which color-blind readers can distinguish.
BLUE, ORANGE, GREEN, SKY = "#0072B2", "#D55E00", "#009E73", "#56B4E9"
BLACK = "#000000"

_LINES: dict[Evaluated, tuple[str, str]] = {
    "validation_top1": ("noisy validation", BLUE),
    "test_top1": ("clean test", GREEN),
    "memorized": ("wrong labels reproduced", ORANGE),
}
_WIDTH = 5.2  # inches of a panel that can be read on a phone
_ROW, _MARGIN = 0.22, 1.2  # inches of a candidate, and of title and axis
_GAP = 0.6  # rows between two learners


def one_panel() -> tuple[Figure, Axes]:
    """Return a figure that can be read on a phone."""
    figure = Figure(figsize=(_WIDTH, 3.6), layout="constrained")
    return figure, figure.subplots()


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set(xlabel="epoch", ylabel=unit, title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.lines:
        axes.legend()


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of its extension, whole or not at all."""
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix.lstrip("."), dpi=150)


def draw_accuracies(axes: Axes, epochs: Sequence[EpochMetrics]) -> None:
    """Draw all accuracies of one training; those of averaged weights are dashed."""
    for name, (label, color) in _LINES.items():
        _draw_percent(axes, epochs, name, color, label)
        averaged = f"{label}, averaged weights"
        _draw_percent(axes, epochs, name, color, averaged, averaged=True, linestyle="--")
    _finish(axes, "accuracy", "%")


def draw_comparison(
    axes: Axes, runs: Mapping[str, Sequence[EpochMetrics]], name: Evaluated, title: str
) -> None:
    """Draw one metric of several trainings, for the averaged weights if there are any."""
    for (label, epochs), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        averaged = epochs[-1].evaluated(name, averaged=True) is not None
        _draw_percent(axes, epochs, name, color, label, averaged=averaged)
    _finish(axes, title, "%")


def draw_loss_against_floor(
    axes: Axes,
    runs: Mapping[str, Sequence[EpochMetrics]],
    floor: float | None,
    memorizing_since: int | None = None,
) -> None:
    """Draw the training loss of each run, the floor, and the first epoch of memorization."""
    for (label, epochs), color in zip(runs.items(), (BLUE, ORANGE, GREEN), strict=False):
        numbers, losses = zip(*((each.epoch, each.train_loss) for each in epochs), strict=True)
        axes.plot(numbers, losses, color=color, label=label)
    if floor is not None:
        axes.axhline(floor, color=BLACK, linestyle=":", label=f"floor {floor:.3f}")
    if memorizing_since is not None:
        label = f"memorizing since epoch {memorizing_since}"
        axes.axvline(memorizing_since, color=ORANGE, linestyle="--", linewidth=1, label=label)
    title = "training loss" if floor is None else "training loss against its floor"
    _finish(axes, title, "mean loss")


def _draw_percent(
    axes: Axes,
    epochs: Sequence[EpochMetrics],
    name: Evaluated,
    color: str,
    label: str,
    *,
    averaged: bool = False,
    linestyle: str = "-",
) -> None:
    values = {each.epoch: each.evaluated(name, averaged=averaged) for each in epochs}
    points = [(epoch, 100 * value) for epoch, value in values.items() if value is not None]
    if points:
        axes.plot(*zip(*points, strict=True), color=color, linestyle=linestyle, label=label)


def evidence_figure(choice: Choice) -> Figure:
    """Return a figure with a row for each candidate, by learner; those that train are diamonds."""
    rows = _rows(choice)
    last = max(rows)
    figure = Figure(figsize=(_WIDTH, _MARGIN + _ROW * (last + 1)), layout="constrained")
    axes = figure.subplots()
    for is_chosen in (False, True):
        found = {place: each for place, each in rows.items() if choice.is_member(each) is is_chosen}
        if found:
            axes.errorbar(
                [100 * each.agreement for each in found.values()],
                list(found),
                xerr=[100 * each.agreement_error for each in found.values()],
                fmt="D" if is_chosen else "o",
                markersize=7 if is_chosen else 4,
                color=ORANGE if is_chosen else BLUE,
                label="chosen" if is_chosen else "tried",
            )
    if choice.baseline is not None:
        share, label = 100 * choice.baseline.agreement, "plain training"
        axes.axvline(share, color=BLACK, linestyle=":", linewidth=1, zorder=0, label=label)
    axes.set_yticks(list(rows), [short_label(each) for each in rows.values()], fontsize=8)
    for tick, each in zip(axes.get_yticklabels(), rows.values(), strict=True):
        tick.set_fontweight("bold" if choice.is_member(each) else "normal")
    axes.set_ylim(last + 0.8, -0.8)  # the first row is on top
    axes.set(xlabel="held-out labels predicted, % (± 1 standard error)")
    figure.legend(loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return figure


def _rows(choice: Choice) -> dict[float, Evidence]:
    """Return each candidate by its place: learners by their best, recipes by their order."""
    learners = list(dict.fromkeys(each.learner for each in choice.tried))
    order = list(RECIPES)
    ordered = sorted(
        choice.tried, key=lambda each: (learners.index(each.learner), order.index(each.recipe))
    )
    gaps = (_GAP * learners.index(each.learner) for each in ordered)
    return {place + gap: each for place, (gap, each) in enumerate(zip(gaps, ordered, strict=True))}


def short_label(evidence: Evidence) -> str:
    """Return a candidate's learner and recipe, for a row of a plot or a table."""
    early = ", early" if evidence.stops_early and evidence.recipe == "plain" else ""
    return f"{evidence.learner}: {evidence.recipe}{early}"
