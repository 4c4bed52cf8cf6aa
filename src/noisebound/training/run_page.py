"""Pages about trainings, as `fit` leaves them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebound.data import Splits
from noisebound.report.heat_map import HeatMap
from noisebound.report.page import Code, Fact, Page, Picture, Section
from noisebound.report.plots import (
    draw_accuracies,
    draw_comparison,
    draw_loss_against_floor,
    one_panel,
)
from noisebound.report.table import EMPTY, Cell, Row, Table
from noisebound.training.config import TrainingConfig
from noisebound.training.metrics import Metrics, read_metrics
from noisebound.training.run_folder import FitResult, RunFolder
from noisebound.training.suspects import suspects_of_run
from noisebound.training.suspects_table import suspects_section

_MEASURED = {
    "test_top1": "right on the test set",
    "validation_top1": "right on held-out examples, whose labels are noisy too",
    "memorized": "of the wrong labels reproduced",
}


@dataclass(frozen=True)
class Run:
    """What lies in a run's folder.

    Args:
        name: the folder's
        config: how it was trained
        history: what was measured after each epoch
        result: what came of it; None while it is not finished
    """

    name: str
    config: TrainingConfig
    history: Sequence[Metrics]
    result: FitResult | None

    @staticmethod
    def read(path: Path) -> "Run":
        """Of a folder that has at least one epoch."""
        folder = RunFolder(path)
        config, history = folder.read_config(), read_metrics(folder.metrics)
        if not history:
            raise ValueError(f"{path} has not finished an epoch yet")
        return Run(path.resolve().name, config, history, folder.read_result())

    @property
    def floor(self) -> float | None:
        """Under the training loss, as far as it is known."""
        if self.result is not None and self.result.floor is not None:
            return self.result.floor
        bound: float | None = self.history[-1]["bound"]
        return bound

    @property
    def memorizing_since(self) -> int | None:
        """The epoch from which on the loss of a training without a bound is below the floor."""
        return None if self.result is None else self.result.memorizing_since

    @property
    def noise(self) -> Mapping[str, Any]:
        """What is known of it; nothing, where it was not estimated."""
        return (self.result and self.result.noise) or {}

    @property
    def is_noise_known(self) -> bool:
        """Whether it was told or estimated, and the training is finished."""
        is_told = isinstance(self.config.noise_rate, float) or self.config.transition is not None
        return self.result is not None and (is_told or "transition" in self.noise)

    def final(self, name: str) -> float | None:
        """A measurement after the last epoch, of the averaged weights if there are such."""
        record = self.history[-1]
        value: float | None = record.get(f"averaged_{name}", record.get(name))
        return value


def run_page(path: Path, splits: Splits | None = None, command: str | None = None) -> Page:
    """The page about one training.

    Args:
        path: its folder
        splits: what it was trained on, to show suspect labels; they are left out without
        command: that would repeat it
    """
    run = Run.read(path)
    sections = [
        Section("Training", pictures=_curves(run)),
        *noise_sections(run, splits),
        *_suspects_sections(path, run, splits),
        repeat_section([run], command),
    ]
    return Page(run.name, in_words(run), sections, _facts(run))


def runs_page(paths: Sequence[Path], title: str, command: str | None = None) -> Page:
    """The page about several trainings, the bounded ones beside the plain ones."""
    runs = [Run.read(path) for path in paths]
    pairs = [(plain, bounded) for bounded in runs if (plain := _partner(bounded, runs))]
    paired = {run.name for pair in pairs for run in pair}
    alone = [run for run in runs if run.name not in paired]
    sections = [
        Section("Plain against bounded", tables=[_table(runs, pairs)]),
        *(
            Section(_label(bounded), pictures=_paired_curves(*pair))
            for pair in pairs
            for bounded in pair[1:]
        ),
        *(Section(_label(run), in_words(run), pictures=_curves(run)) for run in alone),
        repeat_section(runs, command),
    ]
    return Page(title, _gain_in_words(pairs) or f"{len(runs)} trainings.", sections)


def in_words(run: Run) -> str:
    """A sentence or two about a training."""
    final = run.history[-1]
    words = f"{_label(run)} after {final['epoch']} epochs: training loss {final['train_loss']:.3f}"
    if run.floor is not None:
        words += f" with a floor at {run.floor:.3f}"
    for name, text in _MEASURED.items():
        value = run.final(name)
        words += "" if value is None else f"; {value:.1%} {text}"
    if run.memorizing_since is not None:
        words += f". It has been memorising wrong labels since epoch {run.memorizing_since}"
    if "interval" in run.noise:
        words += f". About {run.noise['noise_rate']:.1%} of the labels are wrong"
    return words + "."


def noise_sections(run: Run, splits: Splits | None) -> list[Section]:
    """How noisy the labels are, and which classes are taken for which."""
    noise = run.noise
    rows = noise.get("transition", run.config.transition)
    if rows is None:
        return []
    text = ""
    if "interval" in noise:
        low, high = noise["interval"]
        text = f"An estimated {noise['noise_rate']:.1%} of the labels are wrong; with 95% "
        text += f"confidence between {low:.1%} and {high:.1%}. "
    if run.result is not None and run.result.bound_reason is not None:
        text += f"The floor: {run.result.bound_reason}. "
    text += " ".join(f"Note: {warning}." for warning in noise.get("warnings", ()))
    names = [str(k) for k in range(len(rows))] if splits is None else splits.train.class_names
    return [
        Section(
            "The noise",
            text.strip(),
            heat_maps=[
                HeatMap(
                    "Of each true class, how its labels come out, %",
                    "label",
                    "true class",
                    names,
                    names,
                    rows,
                )
            ],
        )
    ]


def _suspects_sections(path: Path, run: Run, splits: Splits | None) -> list[Section]:
    if splits is None or not run.is_noise_known:
        return []
    return [suspects_section(suspects_of_run(RunFolder(path), splits.train), splits)]


def repeat_section(runs: Sequence[Run], command: str | None) -> Section:
    """What it takes to do it again."""
    commands = [] if command is None else [Code("command", command, is_open=True)]
    configs = [Code(f"config of {run.name}", run.config.model_dump_json(indent=2)) for run in runs]
    return Section("To repeat it", code=[*commands, *configs])


def _facts(run: Run) -> list[Fact]:
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
    for name, label in _MEASURED.items():
        value = run.final(name)
        if value is not None:
            facts.append(Fact(f"{value:.1%}", label))
    return facts


def _label(run: Run) -> str:
    return run.config.loss.upper()


def _curves(run: Run) -> list[Picture]:
    losses, axes = one_panel()
    draw_loss_against_floor(axes, {_label(run): run.history}, run.floor, run.memorizing_since)
    accuracies, axes = one_panel()
    draw_accuracies(axes, run.history)
    pictures = [Picture(losses, f"Training loss of {_label(run)} against its floor, by epoch")]
    if axes.lines:
        pictures.append(Picture(accuracies, f"Accuracies of {_label(run)}, by epoch"))
    return pictures


def _partner(bounded: Run, runs: Sequence[Run]) -> Run | None:
    """The plain training that differs in nothing but the bound."""
    if not bounded.config.is_bounded:
        return None
    wanted = bounded.config.model_copy(update={"loss": bounded.config.base_loss})
    return next((run for run in runs if run.config == wanted), None)


def _paired_curves(plain: Run, bounded: Run) -> list[Picture]:
    histories = {_label(bounded): bounded.history, _label(plain): plain.history}
    both = " and ".join(histories)
    figure, axes = one_panel()
    draw_loss_against_floor(axes, histories, bounded.floor, plain.memorizing_since)
    pictures = [Picture(figure, f"Training losses of {both} against their floor, by epoch")]
    for name, title in (
        ("test_top1", "accuracy on the test set"),
        ("memorized", "wrong labels reproduced"),
    ):
        if bounded.final(name) is not None:
            figure, axes = one_panel()
            draw_comparison(axes, histories, name, title)
            pictures.append(Picture(figure, f"{title} of {both}, by epoch"))
    return pictures


def _judged_by(pairs: Sequence[tuple[Run, Run]]) -> str:
    """The test set where all have one."""
    is_tested = all(run.final("test_top1") is not None for pair in pairs for run in pair)
    return "test_top1" if is_tested else "validation_top1"


def _gain_in_words(pairs: Sequence[tuple[Run, Run]]) -> str:
    """Plain against bounded."""
    name = _judged_by(pairs)
    values = [(plain.final(name), bounded.final(name)) for plain, bounded in pairs]
    known = [(plain, bounded) for plain, bounded in values if plain is not None and bounded]
    if not known:
        return ""
    helped = sum(bounded > plain for plain, bounded in known)
    plain_mean, bounded_mean = (sum(each) / len(known) for each in zip(*known, strict=True))
    return (
        f"The bound helps in {helped} of {len(known)} losses: on average {plain_mean:.1%} are "
        f"{_MEASURED[name]} without it, and {bounded_mean:.1%} with it."
    )


def _table(runs: Sequence[Run], pairs: Sequence[tuple[Run, Run]]) -> Table:
    name = _judged_by(pairs)
    gains = {
        bounded.name
        for plain, bounded in pairs
        if (bounded.final(name) or 0.0) > (plain.final(name) or 0.0)
    }
    rows = []
    for run in runs:
        accuracies = [
            _cell(run.final(measured), ".1%", measured == name and run.name in gains)
            for measured in _MEASURED
        ]
        rows.append(
            Row(
                run.name,
                (
                    _cell(run.floor, ".3f"),
                    _cell(run.history[-1]["train_loss"], ".3f"),
                    _cell(run.memorizing_since, "d"),
                    *accuracies,
                ),
                is_shaded=run.config.is_bounded,
            )
        )
    header = ("training", "floor", "training loss", "memorising since epoch")
    return Table(
        name="trainings",
        title="After the last epoch; ↑ where the bound helps",
        header=(
            *header,
            "test set right",
            "held-out right, noisy labels",
            "wrong labels reproduced",
        ),
        rows=tuple(rows),
        records=(),
    )


def _cell(value: float | None, form: str, is_gain: bool = False) -> Cell:
    return EMPTY if value is None else Cell(format(value, form), "", value, is_gain=is_gain)
