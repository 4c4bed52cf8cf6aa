"""The page about several trainings, the bounded ones beside the plain ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noisebound.report.page import Page, Picture, Section
from noisebound.report.plots import draw_comparison, draw_loss_against_floor, one_panel
from noisebound.report.table import Row, Table, number_cell
from noisebound.training.past_run import MEASURED, PastRun
from noisebound.training.run_page import curves, noise_sections, repeat_section


@dataclass(frozen=True)
class _Pair:
    """Two trainings that differ in nothing but the bound."""

    plain: PastRun
    bounded: PastRun

    def accuracies(self, name: str) -> tuple[float, float] | None:
        """Of both, if both have it."""
        plain, bounded = self.plain.final(name), self.bounded.final(name)
        return None if plain is None or bounded is None else (plain, bounded)

    def is_gain(self, name: str) -> bool:
        """Whether the bounded one is at least as good."""
        both = self.accuracies(name)
        return both is not None and both[1] >= both[0]


def runs_page(paths: Sequence[Path], title: str, command: str | None = None) -> Page:
    """What several trainings come to.

    Args:
        paths: their folders
        title: of the page
        command: that would repeat them
    """
    runs = [PastRun.read(path) for path in paths]
    pairs = [pair for run in runs if (pair := _pair_of(run, runs))]
    paired = {run.name for pair in pairs for run in (pair.plain, pair.bounded)}
    sections = [
        Section("Plain against bounded" if pairs else "Trainings", tables=[_table(runs, pairs)])
    ]
    sections += [Section(pair.bounded.name, pictures=_paired_curves(pair)) for pair in pairs]
    for run in runs:
        if run.name not in paired:
            sections.append(Section(run.name, run.in_words(), pictures=curves(run)))
            sections += noise_sections(run, None)
    headline = _gain_in_words(pairs) or f"{len(runs)} trainings."
    return Page(title, headline, [*sections, repeat_section(runs, command)])


def _pair_of(bounded: PastRun, runs: Sequence[PastRun]) -> _Pair | None:
    if not bounded.config.is_bounded:
        return None
    wanted = bounded.config.model_copy(update={"loss": bounded.config.base_loss})
    return next((_Pair(run, bounded) for run in runs if run.config == wanted), None)


def _paired_curves(pair: _Pair) -> list[Picture]:
    histories = {pair.bounded.label: pair.bounded.history, pair.plain.label: pair.plain.history}
    both = " and ".join(histories)
    figure, axes = one_panel()
    draw_loss_against_floor(axes, histories, pair.bounded.floor, pair.plain.memorizing_since)
    pictures = [Picture(figure, f"Training losses of {both} against their floor, by epoch")]
    for name, title in (
        ("test_top1", "accuracy on the test set"),
        ("memorized", "wrong labels reproduced"),
    ):
        if pair.accuracies(name) is not None:
            figure, axes = one_panel()
            draw_comparison(axes, histories, name, title)
            pictures.append(Picture(figure, f"{title} of {both}, by epoch"))
    return pictures


def _judged_by(pairs: Sequence[_Pair]) -> str:
    """The test set where all have one."""
    is_tested = all(pair.accuracies("test_top1") for pair in pairs)
    return "test_top1" if is_tested else "validation_top1"


def _gain_in_words(pairs: Sequence[_Pair]) -> str:
    """Plain against bounded."""
    name = _judged_by(pairs)
    known = [both for pair in pairs if (both := pair.accuracies(name))]
    if not known:
        return ""
    helped = sum(pair.is_gain(name) for pair in pairs)
    plain, bounded = (sum(each) / len(known) for each in zip(*known, strict=True))
    return (
        f"The bound helps in {helped} of {len(known)} pairs: on average {plain:.1%} are "
        f"{MEASURED[name]} without it, and {bounded:.1%} with it."
    )


def _table(runs: Sequence[PastRun], pairs: Sequence[_Pair]) -> Table:
    judged_by = _judged_by(pairs)
    gains = {pair.bounded.name for pair in pairs if pair.is_gain(judged_by)}
    rows = []
    for run in runs:
        accuracies = [
            number_cell(run.final(name), ".1%", is_gain=name == judged_by and run.name in gains)
            for name in MEASURED
        ]
        figures = [
            number_cell(run.floor, ".3f"),
            number_cell(run.history[-1]["train_loss"], ".3f"),
            number_cell(run.memorizing_since, "d"),
        ]
        rows.append(Row(run.name, (*figures, *accuracies), is_shaded=run.config.is_bounded))
    return Table(
        name="trainings",
        title="After the last epoch; ↑ where the bound helps, ties counted",
        header=(
            "training",
            "floor",
            "training loss",
            "memorising since epoch",
            "test set right",
            "held-out right, noisy labels",
            "wrong labels reproduced",
        ),
        rows=tuple(rows),
        records=(),
    )
