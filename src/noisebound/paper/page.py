"""The page about a folder written by ``reproduce``, ``demo`` or ``fit``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from noisebound.data import Splits
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.monitor import memorizing_since
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.multi_label import labels_page
from noisebound.pages.page import Code, Page, Picture, Section
from noisebound.pages.plots import draw_comparison, draw_loss_against_floor
from noisebound.pages.run_page import run_page
from noisebound.pages.table import EMPTY
from noisebound.paper.figures import rate_sweep_figure
from noisebound.paper.frame import FinishedRun, long_frame
from noisebound.paper.presets import OF_THE_METHOD
from noisebound.paper.protocol import (
    BOUNDED,
    COLUMNS,
    METHODS,
    SEARCHED_METHODS,
    TABLE_TITLES,
    Column,
    label_of,
)
from noisebound.paper.run import RunConfig
from noisebound.paper.tables import Selection, accuracy_table, offset_table, rate_table
from noisebound.runs import MultiLabelRun, Run
from noisebound.runs.folder import RunFolder, read_model
from noisebound.runs.keeper import read_metrics
from noisebound.runs.result import read_result

_FREE = OF_THE_METHOD | {"learning_rate", "measure_every"}  # may differ within a table


def report_on(path: Path) -> Page:
    """Return the page about one run, a folder of runs, or a folder with a subfolder ``runs``."""
    if not path.is_dir():
        raise InvalidValueError(f"{path} is not a folder of runs")
    files = RunFolder(path)
    command = files.read_command()
    if files.is_of_labels:
        labels = MultiLabelRun(path)
        return labels_page(labels, labels.training_data(), command)
    if files.metrics.exists() or files.result.exists():
        run = Run(path)
        return run_page(run, _data_of(run), command)
    folder = path / "runs" if (path / "runs").is_dir() else path
    if experiments := _experiments(folder):
        return _experiment_page(experiments, command)
    trainings = [Run(run) for run in sorted(folder.iterdir()) if RunFolder(run).result.exists()]
    if not trainings:
        raise InvalidValueError(
            f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
            "`reproduce` wrote"
        )
    return comparison_page(trainings, f"{len(trainings)} trainings", command)


def _experiments(folder: Path) -> list[FinishedRun]:
    """Return the finished runs of `reproduce`."""
    found = []
    for files in map(RunFolder, sorted(folder.iterdir())):
        if files.experiment.exists():
            config, result = read_model(files.experiment, RunConfig), read_result(files)
            found += [] if result is None else [FinishedRun(config, files, result)]
    return found


def _data_of(run: Run) -> Splits | None:
    """Return the data that a run was trained on; None if it cannot be loaded."""
    try:
        return run.training_data()
    except (DataError, RunError, OSError):
        return None


def _experiment_page(runs: Sequence[FinishedRun], command: str | None) -> Page:
    """Return the page about runs, with a part for each group of settings."""
    sections = [section for part in _by_scale(runs) for section in _experiment_sections(part)]
    headlines = [table.summary for section in sections for table in section.tables if table.summary]
    first = {run.config.column: run.config for run in reversed(runs)}
    code = [] if command is None else [Code("command", command, is_open=True)]
    code += [Code(name, each.model_dump_json(indent=2)) for name, each in sorted(first.items())]
    return Page(
        "Training on noisy labels, plain and bounded",
        " ".join(headlines) or f"{len(runs)} finished runs.",
        [*sections, Section("To repeat it", "The first config of each column.", code=code)],
    )


def _by_scale(runs: Sequence[FinishedRun]) -> list[list[FinishedRun]]:
    """Return the runs in parts; within a part, the runs of a column share their settings."""
    scales: dict[str, list[str]] = {}
    parts: dict[int, list[FinishedRun]] = {}
    for run in runs:
        config = run.config
        settings = config.training.model_dump(exclude=_FREE)
        scale = repr((config.source, config.backbone, config.train_examples, settings))
        known = scales.setdefault(config.column, [])
        if scale not in known:
            known.append(scale)
        parts.setdefault(known.index(scale), []).append(run)
    return list(parts.values())


def _experiment_sections(runs: Sequence[FinishedRun]) -> list[Section]:
    frame = long_frame(runs)
    present, losses = set(frame["column"]), set(frame["method"])
    columns = [column for column in COLUMNS.values() if column.name in present]
    methods = [method for method in METHODS if method in losses]
    methods += SEARCHED_METHODS if (frame["offset"] != 0).any() else ()
    tables = []
    for name in TABLE_TITLES:
        here = [column for column in columns if column.table == name]
        table = accuracy_table(Selection(name, frame, here, methods))
        rows = tuple(row for row in table.rows if any(cell != EMPTY for cell in row.cells))
        tables += [replace(table, rows=rows)] if rows else []
    sections = [Section("Accuracies", tables=tables)] if tables else []
    searched = offset_table(Selection("offsets", frame, columns, BOUNDED))
    if searched.rows:
        sections.append(Section("Bounds around the noise-bound", tables=[searched]))
    swept = frame.filter(pl.col("given_rate") != pl.col("true_rate"))
    if len(swept):
        swept_columns = [COLUMNS[name] for name in swept["column"].unique(maintain_order=True)]
        given = swept["method"].unique(maintain_order=True).to_list()
        table = rate_table(Selection("rate-sweep", frame, swept_columns, given))
        words = "Accuracy by the noise rate that the method is given"
        picture = Picture(rate_sweep_figure(table.records), words)
        sections.append(Section("Given another noise rate", tables=[table], pictures=[picture]))
    sections += [
        Section(
            f"{column.title}, epoch by epoch",
            "The first seed, for each loss without and with its bound.",
            pictures=[Picture(figure, f"Training on {column.title}, epoch by epoch")],
        )
        for column in columns
        if (figure := _epoch_figure(runs, column)) is not None
    ]
    return sections


def _epoch_figure(runs: Sequence[FinishedRun], column: Column) -> Figure | None:
    """Return a row of plots per pair: the loss against its floor, memorization and accuracy."""
    first: dict[str | None, FinishedRun] = {}
    for run in sorted(runs, key=lambda run: run.config.training.seed):
        config = run.config
        is_usual = config.given_rate == config.noise_rate and not config.training.bound_offset
        if config.column == column.name and is_usual:
            first.setdefault(config.training.loss, run)
    pairs = [(loss, f"{loss}+b") for loss in BOUNDED if {loss, f"{loss}+b"} <= first.keys()]
    if not pairs:
        return None
    figure = Figure(figsize=(11, 2.6 * len(pairs)), layout="constrained")
    for axes, (plain, bounded) in zip(
        figure.subplots(len(pairs), 3, squeeze=False), pairs, strict=True
    ):
        epochs = {label_of(m): read_metrics(first[m].folder.metrics) for m in (bounded, plain)}
        floor = first[bounded].result.bound
        assert floor is not None
        since = memorizing_since([each.train_loss for each in epochs[label_of(plain)]], floor)
        draw_loss_against_floor(axes[0], epochs, floor, since)
        draw_comparison(axes[1], epochs, "memorized", "wrong labels reproduced")
        draw_comparison(axes[2], epochs, "test_top1", "accuracy on the test set")
    return figure
