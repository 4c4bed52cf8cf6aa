"""The evidence of a search as a picture: learners and recipes by held-out agreement."""

from itertools import groupby
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisebound.report.plots import BLACK, BLUE, ORANGE
from noisebound.search.choice import Choice
from noisebound.search.evidence import Evidence
from noisebound.search.recipes import RECIPES

_WIDTH = 5.2  # inches, as one panel, which can be read on a phone
_ROW, _MARGIN = 0.22, 1.2  # inches of a candidate, and of title and axis
_GAP = 0.6  # rows between two learners


def evidence_figure(choice: Choice) -> Figure:
    """Return a figure with a row for each candidate, by learner; those that train are diamonds."""
    rows = _rows(choice)
    height = _MARGIN + _ROW * (max(place for place, _ in rows) + 1)
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    _draw(axes, [row for row in rows if not choice.is_member(row[1])], "tried")
    _draw(axes, [row for row in rows if choice.is_member(row[1])], "chosen")
    if choice.baseline is not None:
        share = 100 * choice.baseline.agreement
        axes.axvline(
            share, color=BLACK, linestyle=":", linewidth=1, zorder=0, label="plain training"
        )
    axes.set_yticks(
        [place for place, _ in rows], [short_label(each) for _, each in rows], fontsize=8
    )
    for tick, (_, each) in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if choice.is_member(each) else "normal")
    axes.set_ylim(max(place for place, _ in rows) + 0.8, -0.8)  # the first row is on top
    axes.set(xlabel="held-out labels predicted, % (± 1 standard error)")
    figure.legend(loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return figure


def _rows(choice: Choice) -> list[tuple[float, Evidence]]:
    """Return each candidate with its place: learners by their best, recipes by their order."""
    learners = list(dict.fromkeys(each.learner for each in choice.tried))
    order = list(RECIPES)
    ordered = sorted(
        choice.tried,
        key=lambda each: (learners.index(each.learner), order.index(each.recipe)),
    )
    rows, place = [], 0.0
    for _, of_learner in groupby(ordered, key=lambda each: each.learner):
        for each in of_learner:
            rows.append((place, each))
            place += 1
        place += _GAP
    return rows


def short_label(evidence: Evidence) -> str:
    """Return a candidate's learner and recipe, for a row of a plot or a table."""
    early = ", early" if evidence.stops_early and evidence.recipe == "plain" else ""
    return f"{evidence.learner}: {evidence.recipe}{early}"


def _draw(
    axes: Axes, rows: list[tuple[float, Evidence]], label: Literal["tried", "chosen"]
) -> None:
    if not rows:
        return
    axes.errorbar(
        [100 * each.agreement for _, each in rows],
        [place for place, _ in rows],
        xerr=[100 * each.agreement_error for _, each in rows],
        fmt="D" if label == "chosen" else "o",
        markersize=7 if label == "chosen" else 4,
        color=ORANGE if label == "chosen" else BLUE,
        label=label,
    )
