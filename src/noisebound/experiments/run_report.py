"""A page about runs: those of a reproduction, of the demo, or one that ``fit`` left."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisebound.experiments.accuracy_table import accuracy_table
from noisebound.experiments.columns import COLUMNS, TABLE_TITLES, Column
from noisebound.experiments.finished import FinishedRun, Measurements, all_finished_runs
from noisebound.experiments.methods import BASELINES, BOUNDED, METHODS, SEARCHED_METHODS, label_of
from noisebound.experiments.offset_search import offset_table
from noisebound.experiments.rate_sweep import rate_curves, rate_table
from noisebound.experiments.run_store import RunStore
from noisebound.report.figures import rate_sweep_figure
from noisebound.report.page import Code, Page, Picture, Section
from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY, training_figure
from noisebound.report.table import EMPTY, Cell, Row, Table
from noisebound.training.metrics import Metrics, read_metrics
from noisebound.training.run_folder import RunFolder

_PANELS = (
    ("train_loss", "training loss and its floor"),
    ("memorized", "wrong labels reproduced, %"),
    ("test_top1", "clean test accuracy, %"),
)
_COLORS = (BLUE, ORANGE, GREEN, SKY, BLACK)
_DASHES = ("-", "--", ":")


def report_on(path: Path) -> Page:
    """The page about a run's folder, about a folder of runs, or about one that holds ``runs``."""
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder of runs")
    if (path / "metrics.jsonl").exists():
        return _page_of_fits([path])
    folder = path / "runs" if (path / "runs").is_dir() else path
    runs = all_finished_runs(RunStore(folder))
    if runs:
        return _page_of_experiments(runs)
    fits = sorted(result.parent for result in folder.glob("*/result.json"))
    if not fits:
        raise ValueError(
            f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
            "`reproduce` wrote"
        )
    return _page_of_fits(fits)


def _page_of_experiments(runs: Sequence[FinishedRun]) -> Page:
    parts = [_experiment_sections(part) for part in _by_scale(runs)]
    headlines = [headline for headline, _ in parts if headline]
    sections = [section for _, part in parts for section in part]
    sections += [
        Section("Runs", tables=[_runs_table(runs)]),
        Section("Configs", "The first of each column.", code=_configs(runs)),
    ]
    return Page(
        "Training on noisy labels, plain and bounded",
        " ".join(headlines) or f"{len(runs)} finished runs.",
        sections,
    )


def _by_scale(runs: Sequence[FinishedRun]) -> list[list[FinishedRun]]:
    """In parts in which every column has been run at one scale only; most often there is one."""
    scales: dict[str, list[str]] = {}
    parts: dict[int, list[FinishedRun]] = {}
    for run in runs:
        scale = _scale(run)
        known = scales.setdefault(run.config.column, [])
        if scale not in known:
            known.append(scale)
        parts.setdefault(known.index(scale), []).append(run)
    return list(parts.values())


def _scale(run: FinishedRun) -> str:
    """What all methods of a column have in common."""
    of_the_method = {"loss", "noise_rate", "bound", "bound_classes", "bound_offset"}
    training = run.config.training.model_dump(exclude=of_the_method | {"learning_rate", "seed"})
    return repr((run.config.source, run.config.train_examples, training))


def _experiment_sections(runs: Sequence[FinishedRun]) -> tuple[str, list[Section]]:
    """The tables and pictures of one part, and what they come to in words."""
    measurements = Measurements(runs)
    present = {run.config.column for run in runs}
    columns = [column for column in COLUMNS.values() if column.name in present]
    tables = _accuracy_tables(measurements, columns, runs)
    sections = [Section("Accuracies", tables=tables)]
    searched = offset_table("offsets", measurements, columns, list(BOUNDED))
    if searched.rows:
        sections.append(Section("Bounds around the noise-bound", tables=[searched]))
    swept = _swept(runs)
    if swept:
        table = rate_table("rate-sweep", measurements, *swept)
        curves = [curve for curve in rate_curves(table.records) if len(curve.rates) > 1]
        picture = Picture(
            rate_sweep_figure(curves), "Accuracy over the noise rate that the bound is made for"
        )
        sections.append(Section("Believing another noise rate", tables=[table], pictures=[picture]))
    sections += [
        Section(
            f"{column.title}, epoch by epoch",
            "Of a pair the plain one is orange, the bounded one blue; means over seeds.",
            pictures=[Picture(figure, f"Training on {column.title}, epoch by epoch")],
        )
        for column in columns
        if (figure := _epochs_figure(measurements, column)) is not None
    ]
    headline = " ".join(table.summary for table in tables if table.summary)
    return headline, sections


def _accuracy_tables(
    measurements: Measurements, columns: Sequence[Column], runs: Sequence[FinishedRun]
) -> list[Table]:
    done = {run.config.training.loss for run in runs}
    methods = [method for method in METHODS if method in done]
    if any(run.config.training.bound_offset for run in runs):
        methods += SEARCHED_METHODS
    tables = []
    for name in TABLE_TITLES:
        here = [column for column in columns if column.table == name]
        if here:
            table = accuracy_table(name, measurements, here, methods)
            rows = tuple(row for row in table.rows if any(cell != EMPTY for cell in row.cells))
            tables.append(replace(table, rows=rows))
    return tables


def _swept(runs: Sequence[FinishedRun]) -> tuple[list[Column], list[str]] | None:
    """The columns and methods that were told other noise rates than the true one."""
    found = [
        (COLUMNS[run.config.column], run.config.training.loss)
        for run in runs
        if run.config.training.noise_rate != run.config.noise_rate
    ]
    if not found:
        return None
    return list(dict.fromkeys(c for c, _ in found)), list(dict.fromkeys(m for _, m in found))


def _epochs_figure(measurements: Measurements, column: Column) -> Figure | None:
    """A row for each of the five losses, plain and bounded, and one for all the others."""
    rows = [*((loss, f"{loss}+b") for loss in BOUNDED), tuple(BASELINES)]
    curves = [
        {method: found for method in row if (found := _curves(measurements, column, method))}
        for row in rows
    ]
    curves = [row for row in curves if row]
    if not curves:
        return None
    figure = Figure(figsize=(11, 2.4 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), len(_PANELS), squeeze=False, sharex=True)
    for axes, row in zip(grid, curves, strict=True):
        for number, (method, lines) in enumerate(row.items()):
            _draw(axes, method, lines, number, is_pair=method.partition("+")[0] in BOUNDED)
        axes[0].legend(fontsize=7, ncols=1 + len(row) // 4)
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    return figure


@dataclass(frozen=True)
class _Curves:
    """Means over seeds, epoch by epoch, and the floor."""

    lines: dict[str, tuple[list[int], list[float]]]
    bound: float | None


def _curves(measurements: Measurements, column: Column, method: str) -> _Curves | None:
    runs = list(measurements.of(column, method).values())
    if not runs:
        return None
    histories = [_history(run) for run in runs]
    lines = {name: _mean_curve(histories, name) for name, _ in _PANELS}
    return _Curves(lines, runs[0].result.bound)


def _draw(panels: Sequence[Axes], method: str, curves: _Curves, number: int, is_pair: bool) -> None:
    if is_pair:
        color, dash = (BLUE, "-") if method.endswith("+b") else (ORANGE, "--")
    else:
        color, dash = _COLORS[number % len(_COLORS)], _DASHES[number // len(_COLORS)]
    for axes, (name, title) in zip(panels, _PANELS, strict=True):
        epochs, means = curves.lines[name]
        factor = 1 if name == "train_loss" else 100
        values = [factor * mean for mean in means]
        axes.plot(epochs, values, color=color, linestyle=dash, label=label_of(method))
        axes.set_title(title, fontsize=9)
    if curves.bound is not None:
        panels[0].axhline(curves.bound, color=BLACK, linestyle=":", label="floor")


def _history(run: FinishedRun) -> list[Metrics]:
    return read_metrics(RunFolder(run.result.folder).metrics)


def _mean_curve(histories: Sequence[list[Metrics]], name: str) -> tuple[list[int], list[float]]:
    values: dict[int, list[float]] = {}
    for history in histories:
        for record in history:
            if record.get(name) is not None:
                values.setdefault(record["epoch"], []).append(record[name])
    return list(values), [sum(each) / len(each) for each in values.values()]


def _runs_table(runs: Sequence[FinishedRun]) -> Table:
    rows = []
    for run in runs:
        training, final = run.config.training, run.result.final
        rows.append(
            Row(
                run.config.key,
                (
                    Cell(run.config.column),
                    Cell(training.loss),
                    _number(training.seed, "d"),
                    _number(training.noise_rate, "g"),
                    _number(run.result.bound, ".3f"),
                    _number(final["train_loss"], ".3f"),
                    _number(final.get("test_top1"), ".1%"),
                    _number(final.get("averaged_test_top1"), ".1%"),
                    _number(final.get("memorized"), ".1%"),
                ),
                is_shaded=training.loss.endswith("+b"),
            )
        )
    return Table(
        name="runs",
        title=f"{len(runs)} finished runs, after the last epoch",
        header=(
            "run",
            "column",
            "method",
            "seed",
            "noise rate told",
            "bound",
            "training loss",
            "test accuracy",
            "averaged weights",
            "wrong labels reproduced",
        ),
        rows=tuple(rows),
        records=(),
    )


def _number(value: Any, form: str) -> Cell:
    return Cell("–") if value is None else Cell(format(value, form), "", float(value))


def _configs(runs: Sequence[FinishedRun]) -> list[Code]:
    first = {run.config.column: run.config for run in reversed(runs)}
    return [Code(name, config.model_dump_json(indent=2)) for name, config in sorted(first.items())]


@dataclass(frozen=True)
class _Fit:
    """A folder that `noisebound.training.fit` wrote."""

    name: str
    config: dict[str, Any]
    history: list[Metrics]

    @staticmethod
    def read(path: Path) -> "_Fit":
        folder = RunFolder(path)
        try:
            config = json.loads(folder.config.read_text(encoding="utf-8"))
            config["loss"]
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{folder.config} is not the config of a training") from error
        return _Fit(path.resolve().name, config, read_metrics(folder.metrics))


def _page_of_fits(paths: Sequence[Path]) -> Page:
    fits = [_Fit.read(path) for path in paths]
    fits = [fit for fit in fits if fit.history]
    if not fits:
        raise ValueError(f"{paths[0]} has not finished an epoch yet")
    title = fits[0].name if len(fits) == 1 else f"{len(fits)} trainings"
    return Page(
        title,
        _in_words(fits[0]) if len(fits) == 1 else "Each with its training loss and its floor.",
        [
            Section(
                fit.name,
                "" if len(fits) == 1 else _in_words(fit),
                pictures=[Picture(training_figure(fit.history), f"Training of {fit.name}")],
                code=[Code("config", json.dumps(fit.config, indent=2))],
            )
            for fit in fits
        ],
    )


def _in_words(fit: _Fit) -> str:
    final = fit.history[-1]
    words = f"{fit.config['loss']} after {final['epoch']} epochs: training loss "
    words += f"{final['train_loss']:.3f}"
    if final["bound"] is not None:
        words += f" with a floor at {final['bound']:.3f}"
    for name, text in (
        ("validation_top1", "right on held-out examples, whose labels are noisy too"),
        ("test_top1", "right on the test set"),
        ("memorized", "of the wrong labels reproduced"),
    ):
        value = final.get(f"averaged_{name}", final.get(name))
        words += "" if value is None else f"; {value:.1%} {text}"
    return words + "."
