"""The report page of several trainings, which pairs bounded ones with plain ones."""

from collections.abc import Sequence
from typing import NamedTuple

from noisebound.pages.run_page import (
    curves,
    in_words,
    label_of,
    memorizing_since,
    noise_sections,
    repeat_section,
    require_epochs,
)
from noisebound.pages.training_plots import draw_comparison, draw_loss_against_floor
from noisebound.report.page import Page, Picture, Section
from noisebound.report.plots import one_panel
from noisebound.report.table import Row, Table, number_cell
from noisebound.runs import Run
from noisebound.training.metrics import METRIC_LABELS, Evaluated

_PAIRED: tuple[tuple[Evaluated, str], ...] = (
    ("test_top1", "accuracy on the test set"),
    ("memorized", "wrong labels reproduced"),
)


class _Pair(NamedTuple):
    """Two trainings that differ only in the bound."""

    plain: Run
    bounded: Run

    def accuracies(self, name: Evaluated) -> tuple[float, float] | None:
        plain, bounded = self.plain.final(name), self.bounded.final(name)
        return None if plain is None or bounded is None else (plain, bounded)

    def is_gain(self, name: Evaluated) -> bool:
        """True if the bounded training is at least as good."""
        both = self.accuracies(name)
        return both is not None and both[1] >= both[0]


def comparison_page(runs: Sequence[Run], title: str, command: str | None = None) -> Page:
    """Return the page about several trainings; ``command`` repeats them."""
    for run in runs:
        require_epochs(run)
    pairs = [pair for run in runs if (pair := _pair_of(run, runs))]
    paired = {run.name for pair in pairs for run in pair}
    sections = [
        Section("Plain against bounded" if pairs else "Trainings", tables=[_table(runs, pairs)])
    ]
    sections += [Section(pair.bounded.name, pictures=_paired_curves(pair)) for pair in pairs]
    for run in runs:
        if run.name not in paired:
            sections.append(Section(run.name, in_words(run), pictures=curves(run)))
            sections += noise_sections(run, None)
    headline = _gain_in_words(pairs) or f"{len(runs)} trainings."
    return Page(title, headline, [*sections, repeat_section(runs, command)])


def _pair_of(bounded: Run, runs: Sequence[Run]) -> _Pair | None:
    name = bounded.config.loss_name
    if not name.is_bounded:
        return None
    wanted = bounded.config.model_copy(update={"loss": str(name.plain)})
    return next((_Pair(run, bounded) for run in runs if run.config == wanted), None)


def _paired_curves(pair: _Pair) -> list[Picture]:
    histories = {label_of(run): run.epochs for run in (pair.bounded, pair.plain)}
    both = " and ".join(histories)
    figure, axes = one_panel()
    draw_loss_against_floor(axes, histories, pair.bounded.floor, memorizing_since(pair.plain))
    pictures = [Picture(figure, f"{both}: {axes.get_title()}, by epoch")]
    for name, title in _PAIRED:
        if pair.accuracies(name) is not None:
            figure, axes = one_panel()
            draw_comparison(axes, histories, name, title)
            pictures.append(Picture(figure, f"{title} of {both}, by epoch"))
    return pictures


def _judged_by(pairs: Sequence[_Pair]) -> Evaluated:
    """Return test accuracy if all pairs have it, else validation accuracy."""
    is_tested = all(pair.accuracies("test_top1") for pair in pairs)
    return "test_top1" if is_tested else "validation_top1"


def _gain_in_words(pairs: Sequence[_Pair]) -> str:
    name = _judged_by(pairs)
    known = [both for pair in pairs if (both := pair.accuracies(name))]
    if not known:
        return ""
    helped = sum(pair.is_gain(name) for pair in pairs)
    plain, bounded = (sum(each) / len(known) for each in zip(*known, strict=True))
    return (
        f"The bound helps in {helped} of {len(known)} pairs: on average the "
        f"{METRIC_LABELS[name]} is {plain:.1%} without it, and {bounded:.1%} with it."
    )


def _table(runs: Sequence[Run], pairs: Sequence[_Pair]) -> Table:
    judged_by = _judged_by(pairs)
    gains = {pair.bounded.name for pair in pairs if pair.is_gain(judged_by)}
    rows = []
    for run in runs:
        accuracies = [
            number_cell(run.final(name), ".1%", is_gain=name == judged_by and run.name in gains)
            for name in METRIC_LABELS
        ]
        figures = [
            number_cell(run.floor, ".3f"),
            number_cell(run.epochs[-1].train_loss, ".3f"),
            number_cell(memorizing_since(run), "d"),
        ]
        rows.append(
            Row(run.name, (*figures, *accuracies), is_shaded=run.config.loss_name.is_bounded)
        )
    return Table(
        name="trainings",
        title="After the last epoch; ↑ where the bound helps, ties counted",
        header=(
            "training",
            "floor",
            "training loss",
            "memorizing since epoch",
            "test set right",
            "validation right, noisy labels",
            "wrong labels reproduced",
        ),
        rows=tuple(rows),
        records=(),
    )
