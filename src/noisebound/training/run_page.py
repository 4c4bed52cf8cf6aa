"""The page about one training, as `fit` leaves it."""

from collections.abc import Sequence
from pathlib import Path

from noisebound.data import DataError, Splits
from noisebound.report.heat_map import HeatMap
from noisebound.report.page import Code, Fact, Page, Picture, Section
from noisebound.report.plots import draw_accuracies, draw_loss_against_floor, one_panel
from noisebound.report.table import Cell, Row, Table
from noisebound.training.past_run import MEASURED, PastRun
from noisebound.training.run_folder import RunFolder
from noisebound.training.suspects import suspects_of_run
from noisebound.training.suspects_table import suspects_section

_CONFUSIONS = 20


def run_page(path: Path, splits: Splits | None = None, command: str | None = None) -> Page:
    """What one training comes to.

    Args:
        path: its folder
        splits: what it was trained on, to show suspect labels; they are left out without
        command: that would repeat it
    """
    run = PastRun.read(path)
    sections = [
        Section("Training", pictures=curves(run)),
        *noise_sections(run, splits),
        *_suspects_sections(path, run, splits),
        repeat_section([run], command),
    ]
    return Page(run.name, run.in_words(), sections, _facts(run))


def curves(run: PastRun) -> list[Picture]:
    """The training loss against its floor, and the accuracies."""
    losses, axes = one_panel()
    draw_loss_against_floor(axes, {run.label: run.history}, run.floor, run.memorizing_since)
    pictures = [Picture(losses, f"Training loss of {run.label} against its floor, by epoch")]
    accuracies, axes = one_panel()
    draw_accuracies(axes, run.history)
    if axes.lines:
        pictures.append(Picture(accuracies, f"Accuracies of {run.label}, by epoch"))
    return pictures


def noise_sections(run: PastRun, splits: Splits | None) -> list[Section]:
    """How noisy the labels are, and which classes are taken for which; none if nobody knows."""
    rows = run.noise.get("transition", run.config.transition)
    if rows is None:
        return []
    names = [str(k) for k in range(len(rows))] if splits is None else splits.train.class_names
    heat_map = heat_map_of(rows, names)
    tables = [] if heat_map.has_numbers else [_confusions(rows, names)]
    return [Section("The noise", _noise_in_words(run), tables, heat_maps=[heat_map])]


def heat_map_of(transition: Sequence[Sequence[float]], names: Sequence[str]) -> HeatMap:
    """Of a transition matrix ``T[noisy, true]``."""
    title = "Of each true class, how its labels come out, %"
    return HeatMap(title, "label", "true class", names, names, transition)


def repeat_section(runs: Sequence[PastRun], command: str | None) -> Section:
    """What it takes to do it again."""
    commands = [] if command is None else [Code("command", command, is_open=True)]
    configs = [Code(f"config of {run.name}", run.config.model_dump_json(indent=2)) for run in runs]
    return Section("To repeat it", code=[*commands, *configs])


def _noise_in_words(run: PastRun) -> str:
    text = ""
    if "interval" in run.noise:
        low, high = run.noise["interval"]
        text = f"An estimated {run.noise['noise_rate']:.1%} of the labels are wrong; with 95% "
        text += f"confidence between {low:.1%} and {high:.1%}. "
    if run.result is not None and run.result.bound_reason is not None:
        text += f"The floor: {run.result.bound_reason}. "
    text += " ".join(f"Note: {warning}." for warning in run.noise.get("warnings", ()))
    return text.strip()


def _confusions(transition: Sequence[Sequence[float]], names: Sequence[str]) -> Table:
    """The largest entries off the diagonal, for a matrix that is too large to be read."""
    entries = [
        (share, true, noisy)
        for noisy, row in enumerate(transition)
        for true, share in enumerate(row)
        if noisy != true
    ]
    rows = [
        Row(names[true], (Cell(names[noisy]), Cell(f"{share:.1%}", "", share)))
        for share, true, noisy in sorted(entries, reverse=True)[:_CONFUSIONS]
    ]
    header = ("true class", "labelled", "of the class")
    return Table("confusions", "The most frequent mistakes", header, tuple(rows), ())


def _suspects_sections(path: Path, run: PastRun, splits: Splits | None) -> list[Section]:
    if splits is None or not run.is_noise_known:
        return []
    try:
        suspects = suspects_of_run(RunFolder(path), splits.train)
    except DataError as error:  # such as data that have changed since
        return [Section("The most suspect labels", f"They cannot be shown: {error}.")]
    return [suspects_section(suspects, splits)]


def _facts(run: PastRun) -> list[Fact]:
    facts = []
    if "interval" in run.noise:
        low, high = run.noise["interval"]
        label = f"of the labels wrong, as estimated ({low:.1%} to {high:.1%})"
        facts.append(Fact(f"{run.noise['noise_rate']:.1%}", label))
    elif isinstance(run.config.noise_rate, float):
        facts.append(Fact(f"{run.config.noise_rate:.1%}", "of the labels wrong, as given"))
    if run.floor is not None:
        facts.append(Fact(f"{run.floor:.3f}", "floor of the training loss"))
    facts.append(Fact(f"{run.history[-1]['train_loss']:.3f}", "training loss"))
    for name, label in MEASURED.items():
        value = run.final(name)
        if value is not None:
            facts.append(Fact(f"{value:.1%}", label))
    return facts
