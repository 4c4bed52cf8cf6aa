"""The page about a folder written by ``reproduce``, ``demo`` or ``fit``."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from noisebound.data import Splits
from noisebound.errors import DataError, InvalidValueError, NoiseboundError, RunError
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import require_epochs, run_page
from noisebound.paper.figures import epoch_figure, rate_sweep_figure
from noisebound.paper.frame import FinishedRun, all_finished_runs, long_frame
from noisebound.paper.protocol import (
    BOUNDED,
    COLUMNS,
    METHODS,
    SEARCHED_METHODS,
    TABLE_TITLES,
    Column,
)
from noisebound.paper.run import RunStore
from noisebound.paper.tables import Selection, accuracy_table, offset_table, rate_table
from noisebound.report.page import Code, Page, Picture, Section
from noisebound.report.table import EMPTY, Cell, Row, Table, number_cell
from noisebound.runs import Run, load_run
from noisebound.runs.folder import RunFolder

_OF_THE_METHOD = {"loss", "recipe", "noise_rate", "transition", "learning_rate"}
_OF_THE_BOUND = {"bound", "bound_classes", "bound_offset"}
_OF_THE_RUN = {"seed", "measure_every"}


class DamagedRunWarning(UserWarning):
    """A run cannot be read and is missing from the page."""


def report_on(path: Path) -> Page:
    """Return the page about one run, a folder of runs, or a folder with a subfolder ``runs``."""
    if not path.is_dir():
        raise InvalidValueError(f"{path} is not a folder of runs")
    files = RunFolder(path)
    command = files.read_command()
    if files.metrics.exists():
        run = load_run(path)
        return run_page(run, _data_of(run), command)
    folder = path / "runs" if (path / "runs").is_dir() else path
    runs, damages = all_finished_runs(RunStore(folder))
    if runs:
        return _with_damages(_experiment_page(runs, command), damages)
    fits = sorted(
        result.parent
        for result in folder.glob(f"*/{files.result.name}")
        if not RunFolder(result.parent).experiment.exists()
    )
    trainings, others = _readable(fits)
    damages += others
    if trainings:
        page = comparison_page(trainings, f"{len(trainings)} trainings", command)
        return _with_damages(page, damages)
    if damages:
        raise damages[0]
    raise InvalidValueError(
        f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
        "`reproduce` wrote"
    )


def _readable(fits: Sequence[Path]) -> tuple[list[Run], list[NoiseboundError]]:
    """Return the runs that can be read, and the errors of the others."""
    whole: list[Run] = []
    damages: list[NoiseboundError] = []
    for fit in fits:
        try:
            run = load_run(fit)
            require_epochs(run)
            _ = run.noise  # read now, with the out-of-fold predictions
            whole.append(run)
        except NoiseboundError as error:
            damages.append(error)
    return whole, damages


def _with_damages(page: Page, damages: Sequence[NoiseboundError]) -> Page:
    """Return the page with a section on damaged runs; warn about each."""
    for damage in damages:
        warnings.warn(f"a run is left out: {damage}", DamagedRunWarning, stacklevel=3)
    if not damages:
        return page
    lines = [Code(str(damage).partition(":")[0], str(damage), is_open=True) for damage in damages]
    section = Section("Damaged runs", f"{len(damages)} runs could not be read.", code=lines)
    return replace(page, sections=[*page.sections, section])


def _data_of(run: Run) -> Splits | None:
    """Return the data that a run was trained on; None if it cannot be loaded."""
    try:
        return run.training_data()
    except (DataError, RunError, OSError):
        return None


def _experiment_page(runs: Sequence[FinishedRun], command: str | None) -> Page:
    """Return the page about runs, with a part for each group of settings."""
    parts = [_experiment_sections(part) for part in _by_scale(runs)]
    headlines = [headline for headline, _ in parts if headline]
    sections = [section for _, part in parts for section in part]
    sections += [
        Section("Runs", tables=[_runs_table(runs)]),
        Section("To repeat it", "The first config of each column.", code=_configs(runs, command)),
    ]
    return Page(
        "Training on noisy labels, plain and bounded",
        " ".join(headlines) or f"{len(runs)} finished runs.",
        sections,
    )


def _by_scale(runs: Sequence[FinishedRun]) -> list[list[FinishedRun]]:
    """Return the runs in parts; within a part, the runs of a column share their settings."""
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
    """Return the settings that all methods of a column share."""
    training = run.config.training.model_dump(exclude=_OF_THE_METHOD | _OF_THE_BOUND | _OF_THE_RUN)
    return repr((run.config.source, run.config.backbone, run.config.train_examples, training))


def _experiment_sections(runs: Sequence[FinishedRun]) -> tuple[str, list[Section]]:
    """Return the headline of one part, and its tables and pictures."""
    frame = long_frame(runs)
    present = {run.config.column for run in runs}
    columns = [column for column in COLUMNS.values() if column.name in present]
    losses = {run.config.training.loss for run in runs}
    methods = [method for method in METHODS if method in losses]
    if any(run.config.training.bound_offset for run in runs):
        methods += SEARCHED_METHODS
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
    swept = _swept(runs)
    if swept:
        table = rate_table(Selection("rate-sweep", frame, *swept))
        words = "Accuracy by the noise rate that the method is given"
        picture = Picture(rate_sweep_figure(table.records), words)
        sections.append(Section("Given another noise rate", tables=[table], pictures=[picture]))
    sections += [
        Section(
            f"{column.title}, epoch by epoch",
            "Means over seeds. In a pair the plain training is orange, the bounded one blue.",
            pictures=[Picture(figure, f"Training on {column.title}, epoch by epoch")],
        )
        for column in columns
        if (figure := epoch_figure(runs, column)) is not None
    ]
    return " ".join(table.summary for table in tables if table.summary), sections


def _swept(runs: Sequence[FinishedRun]) -> tuple[list[Column], list[str]] | None:
    """Return the columns and methods of runs that were given a wrong noise rate, if any."""
    found = [run.config for run in runs if run.config.given_rate != run.config.noise_rate]
    if not found:
        return None
    columns = dict.fromkeys(COLUMNS[config.column] for config in found)
    return list(columns), list(dict.fromkeys(str(each.training.loss_name) for each in found))


def _runs_table(runs: Sequence[FinishedRun]) -> Table:
    cells = {run.config: _run_cells(run) for run in runs}
    rows = [
        Row(config.key, tuple(each.values()), is_shaded=config.training.loss_name.is_bounded)
        for config, each in cells.items()
    ]
    title = f"{len(runs)} finished runs, after the last epoch"
    return Table("runs", title, ("run", *_run_cells(runs[0])), tuple(rows), records=())


def _run_cells(run: FinishedRun) -> dict[str, Cell]:
    training, final = run.config.training, run.result.final
    return {
        "column": Cell(run.config.column),
        "method": Cell(str(training.loss_name)),
        "seed": number_cell(training.seed, "d"),
        "given noise rate": number_cell(training.given_rate, "g"),
        "bound": number_cell(run.result.bound, ".3f"),
        "training loss": number_cell(final.train_loss, ".3f"),
        "memorizing since epoch": number_cell(run.result.memorizing_since, "d"),
        "test accuracy": number_cell(final.test_top1, ".1%"),
        "averaged weights": number_cell(final.averaged_test_top1, ".1%"),
        "wrong labels reproduced": number_cell(final.memorized, ".1%"),
    }


def _configs(runs: Sequence[FinishedRun], command: str | None) -> list[Code]:
    first = {run.config.column: run.config for run in reversed(runs)}
    return [
        *([] if command is None else [Code("command", command, is_open=True)]),
        *(Code(name, config.model_dump_json(indent=2)) for name, config in sorted(first.items())),
    ]
