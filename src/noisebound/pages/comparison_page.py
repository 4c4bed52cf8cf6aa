"""The report page of several trainings, which pairs bounded ones with plain ones."""

from collections.abc import Sequence
from statistics import fmean
from typing import TypeAlias

from noisebound.pages.page import Page, Picture, Section
from noisebound.pages.plots import draw_comparison, draw_loss_against_floor, one_panel
from noisebound.pages.run_page import (
    curves,
    in_words,
    label_of,
    noise_sections,
    repeat_section,
)
from noisebound.pages.table import Row, Table, number_cell
from noisebound.runs import Run
from noisebound.training.metrics import METRIC_LABELS, Evaluated

_Pair: TypeAlias = tuple[Run, Run]  # a plain training and a bounded one, otherwise alike
_PAIRED: dict[Evaluated, str] = {
    "test_top1": "accuracy on the test set",
    "memorized": "wrong labels reproduced",
}
_HEADER = (
    "training",
    "floor",
    "training loss",
    "memorizing since epoch",
    "test set right",
    "validation right, noisy labels",
    "wrong labels reproduced",
)


def comparison_page(runs: Sequence[Run], title: str, command: str | None = None) -> Page:
    """Return the page about several finished runs; ``command`` repeats them."""
    pairs = [pair for run in runs if (pair := _pair_of(run, runs))]
    is_tested = all(_accuracies(pair, "test_top1") for pair in pairs)
    name: Evaluated = "test_top1" if is_tested else "validation_top1"
    judged = {pair[1]: both for pair in pairs if (both := _accuracies(pair, name))}
    gains = [run for run, (plain, bounded) in judged.items() if bounded >= plain]
    headline = f"{len(runs)} trainings."
    if judged:
        plain, bounded = map(fmean, zip(*judged.values(), strict=True))
        headline = (
            f"The bound helps in {len(gains)} of {len(judged)} pairs: on average the "
            f"{METRIC_LABELS[name]} is {plain:.1%} without it, and {bounded:.1%} with it."
        )
    title_of_table = "Plain against bounded" if pairs else "Trainings"
    sections = [Section(title_of_table, tables=[_table(runs, name, gains)])]
    sections += [Section(pair[1].name, pictures=_paired_curves(pair)) for pair in pairs]
    for run in runs:
        if not any(run in pair for pair in pairs):
            sections.append(Section(run.name, in_words(run), pictures=curves(run)))
            sections += noise_sections(run, None)
    return Page(title, headline, [*sections, repeat_section(runs, command)])


def _pair_of(bounded: Run, runs: Sequence[Run]) -> _Pair | None:
    name = bounded.config.loss_name
    if not name.is_bounded:
        return None
    wanted = bounded.config.model_copy(update={"loss": str(name.plain)})
    return next(((run, bounded) for run in runs if run.config == wanted), None)


def _accuracies(pair: _Pair, name: Evaluated) -> tuple[float, float] | None:
    plain, bounded = (run.final(name) for run in pair)
    return None if plain is None or bounded is None else (plain, bounded)


def _paired_curves(pair: _Pair) -> list[Picture]:
    plain, bounded = pair
    histories = {label_of(run): run.epochs for run in (bounded, plain)}
    both = " and ".join(histories)
    figure, axes = one_panel()
    draw_loss_against_floor(axes, histories, bounded.floor, plain.result.memorizing_since)
    pictures = [Picture(figure, f"{both}: {axes.get_title()}, by epoch")]
    for name, title in _PAIRED.items():
        if _accuracies(pair, name) is not None:
            figure, axes = one_panel()
            draw_comparison(axes, histories, name, title)
            pictures.append(Picture(figure, f"{title} of {both}, by epoch"))
    return pictures


def _table(runs: Sequence[Run], judged_by: Evaluated, gains: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        losses = run.floor, run.result.final.train_loss
        cells = [number_cell(each, ".3f") for each in losses]
        cells.append(number_cell(run.result.memorizing_since, "d"))
        cells += [
            number_cell(run.final(name), ".1%", is_gain=name == judged_by and run in gains)
            for name in METRIC_LABELS
        ]
        rows.append(Row(run.name, tuple(cells), is_shaded=run.config.loss_name.is_bounded))
    title = "After the last epoch; ↑ where the bound helps, ties counted"
    return Table("trainings", title, _HEADER, tuple(rows))
