"""One call per table: plan its runs, do those that are missing, write the table."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.errors import InvalidValueError
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.files import write_json, write_text
from noisebound.paper.outcome.accuracy_table import accuracy_table
from noisebound.paper.outcome.bound_table import comparison_table, noise_bound_table
from noisebound.paper.outcome.contender_table import contender_table
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.finished import (
    FinishedRun,
    Measurements,
    Selection,
    Weights,
    finished_runs,
)
from noisebound.paper.outcome.label_tables import estimate_table, suspect_table
from noisebound.paper.outcome.offset_search import offset_table
from noisebound.paper.outcome.rate_sweep import rate_curves, rate_table
from noisebound.paper.outcome.standing_table import standing_table
from noisebound.paper.protocol.columns import (
    BEYOND,
    COLUMNS,
    PRETRAINED,
    Column,
    columns_of,
    find_columns,
)
from noisebound.paper.protocol.contenders import (
    CONTEST_TITLES,
    CONTESTS,
    check_contenders,
)
from noisebound.paper.protocol.methods import (
    BOUNDED,
    METHODS,
    check_bounded,
    check_methods,
)
from noisebound.paper.protocol.plan import Plan
from noisebound.paper.protocol.run_config import RunConfig
from noisebound.paper.runner.estimate_cells import EstimateCell
from noisebound.paper.runner.run_store import RunStore
from noisebound.paper.runner.sweep import run_sweep
from noisebound.paper.runner.workers import Workers
from noisebound.report.figures import rate_sweep_figure, write_figure
from noisebound.report.table import Table
from noisebound.report.table_formats import write_table

Target: TypeAlias = Literal[
    "table1",
    "table2",
    "open-set",
    "own",
    "offsets",
    "rate-sweep",
    "bound-table",
    "beyond",
    "granularity",
    "backward",
    "pretrained",
    "losses",
    "bounds",
]

_EMBEDDED_COLUMNS = ("cifar10-0.4", "cifar100-0.4", "asym-cifar100-0.4")
_FEW_COLUMNS = ("fashion-mnist-0.4", "fashion-mnist-pairwise-0.4", "mnist-0.4")


@dataclass(frozen=True)
class Request:
    """What to reproduce.

    Args:
        target: the table
        plan: makes the configs of the runs
        columns: the names of columns; None for those of the table
        methods: the names of methods; None for those of the table
        weights: which weights the table judges
        name: the name of the files; None for the target's
        only: the methods whose missing runs are done, while the table shows all that are finished;
            None for all methods
    """

    target: Target
    plan: Plan
    columns: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    weights: Weights = "last"
    name: str | None = None
    only: Sequence[str] | None = None

    @property
    def file_name(self) -> str:
        """The name of the files without their ending; it says so if weights are averaged."""
        return (self.name or self.target) + ("-averaged" if self.weights == "averaged" else "")

    def check(self) -> None:
        """Refuse a request whose table would stay empty, before hours are spent on its runs."""
        if any(run.judges_labels or run.learner == "cleanlab" for run in self.due_runs()):
            require_cleanlab()
        if self.target == "pretrained" and not self.plan.sources.backbones:
            raise InvalidValueError(
                "the experiment on embeddings needs a pretrained encoder for images, and one for "
                "texts: name them as `backbone`, such as onnx:efficientnet-lite0.onnx hf:FOLDER; "
                "examples/export_efficientnet.py writes the first"
            )
        for column in self.chosen_columns():
            settings = self.plan.preset.settings_for(column.dataset)
            if self.target == "offsets" and not settings.validation_share:
                raise InvalidValueError(
                    f"offsets are chosen on validation, and validation_share is 0 for "
                    f"{column.dataset}: set it, as in validation_share=0.1"
                )
            if self.weights == "averaged" and not settings.average_epochs:
                raise InvalidValueError(
                    f"weights are not averaged for {column.dataset}: set average_epochs, as in "
                    "average_epochs=5, or choose 'last' for `weights`"
                )

    def chosen_columns(self) -> tuple[Column, ...]:
        """Return the columns of the table."""
        if self.columns is not None:
            return find_columns(self.columns, self._usual_columns())
        match self.target:
            case "bound-table":
                return tuple(each for each in COLUMNS.values() if each.table != "pretrained")
            case "offsets":
                return (*columns_of("table1"), *columns_of("table2"))
            case "rate-sweep":
                return find_columns(["emnist-0.4", "cifar10-0.4"])
            case "beyond":
                return BEYOND
            case "pretrained":
                return PRETRAINED
            case "granularity" | "backward":
                return find_columns(_FEW_COLUMNS)
            case "losses" | "bounds":
                return find_columns(_EMBEDDED_COLUMNS)
            case table:
                return columns_of(table)

    def chosen_methods(self) -> tuple[str, ...]:
        """Return the methods of the table, as it spells them."""
        match self.target:
            case "offsets":
                return check_bounded(
                    BOUNDED if self.methods is None else self.methods, lambda name: name.searched
                )
            case "rate-sweep":
                return check_bounded(
                    ("ce", "sce") if self.methods is None else self.methods,
                    lambda name: name.bounded,
                )
            case "beyond" | "granularity" | "backward" | "pretrained" | "losses" | "bounds":
                among = CONTESTS[self.target]
                return check_contenders(
                    tuple(among) if self.methods is None else self.methods, among
                )
            case _:
                return check_methods(METHODS if self.methods is None else self.methods)

    def _usual_columns(self) -> tuple[Column, ...] | None:
        """Return the columns that a data set's name stands for; None for those of the paper."""
        if self.target == "pretrained":
            return PRETRAINED
        if self.target in ("losses", "bounds"):
            return None
        return BEYOND if self.target in CONTESTS else None

    def due_runs(self) -> list[RunConfig]:
        """Return the runs that are to be done if they are not finished."""
        return self.runs() if self.only is None else replace(self, methods=self.only).runs()

    def runs(self) -> list[RunConfig]:
        """Return every run that the table needs."""
        columns, methods = self.chosen_columns(), self.chosen_methods()
        if self.target == "bound-table":
            return []
        if self.target == "rate-sweep":
            return [
                run
                for column in columns
                for method in methods
                for runs in self.plan.rate_runs(column, method).values()
                for run in runs
            ]
        if self.target in CONTESTS:
            return [
                run
                for column in columns
                for method in methods
                for run in self.plan.contender_runs(column, CONTESTS[self.target][method])
            ]
        return self.plan.table_runs(columns, methods)


@dataclass(frozen=True)
class Reproduction:
    """The outcome of a request.

    Args:
        tables: the tables, as far as runs are finished
        files: the files that were written
        failures: the runs or cells that failed, with their errors
    """

    tables: tuple[Table, ...]
    files: tuple[Path, ...]
    failures: Mapping[RunConfig, str] | Mapping[EstimateCell, str]


def reproduce(request: Request, out: Path, workers: Workers) -> Reproduction:
    """Do the runs that are not finished, and write the tables.

    Args:
        request: what to reproduce
        out: the folder for the tables; the runs are in its folder ``runs``
        workers: how many processes do the runs, and where
    """
    request.check()
    store, runs = RunStore(out / "runs"), request.runs()
    failures: Mapping[RunConfig, str] = {}
    if runs:
        _check_sources(request, out / "sources.json")
        write_text(
            out / f"{request.file_name}-preset.json",
            request.plan.preset.model_dump_json(indent=2) + "\n",
        )
        failures = run_sweep(request.due_runs(), store, request.plan.sources, workers)
    finished = finished_runs(store, runs)
    tables = _tables(request, finished)
    files = [path for table in tables for path in write_table(table, out)]
    if request.target == "rate-sweep" and tables[0].records:
        files += write_figure(
            rate_sweep_figure(rate_curves(tables[0].records)), out, request.file_name
        )
    return Reproduction(tuple(tables), tuple(files), failures)


def _tables(request: Request, finished: Sequence[FinishedRun]) -> list[Table]:
    columns, methods = request.chosen_columns(), request.chosen_methods()
    if request.target == "bound-table":
        return [comparison_table(), noise_bound_table(columns)]
    if request.target in CONTESTS:
        return _contest_tables(request, finished)
    selection = Selection(
        request.file_name,
        Measurements(finished),
        columns,
        methods,
        request.weights,
        _circumstances(request, finished),
    )
    match request.target:
        case "offsets":
            return [offset_table(selection)]
        case "rate-sweep":
            return [rate_table(selection)]
        case _:
            return [accuracy_table(selection)]


def _contest_tables(request: Request, finished: Sequence[FinishedRun]) -> list[Table]:
    contest = Contest(
        request.file_name,
        CONTEST_TITLES[request.target],
        finished,
        request.chosen_columns(),
        {name: CONTESTS[request.target][name] for name in request.chosen_methods()},
        request.weights,
        _circumstances(request, finished),
    )
    tables = [contender_table(contest)]
    if request.target == "beyond" and "fce+auto" in contest.contenders:
        tables += [estimate_table(contest), suspect_table(contest)]
    if request.target == "pretrained":
        tables += [standing_table(contest)]
    return tables


def _check_sources(request: Request, record: Path) -> None:
    """Refuse unpublished data whose name stood for other data in earlier runs."""
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = {}
    found = dict(known)
    for dataset in dict.fromkeys(column.dataset for column in request.chosen_columns()):
        source = request.plan.sources.source_of(dataset)
        if source is None:
            continue
        fingerprint = request.plan.sources.fingerprint(dataset)
        if found.setdefault(source, fingerprint) != fingerprint:
            raise InvalidValueError(
                f"{record.parent} holds runs on other data that was called {source!r} too: rename "
                "the data, or choose another folder: `out`"
            )
    if found != known:
        write_json(record, found)


def _circumstances(request: Request, finished: Sequence[FinishedRun]) -> list[str]:
    """Return notes on the settings, the data and the machines of the runs."""
    plan, columns = request.plan, request.chosen_columns()
    notes = []
    scales: dict[str, list[str]] = {}
    for column in columns:
        settings = plan.preset.settings_for(column.dataset)
        examples = settings.train_examples
        scale = f"{'all' if examples is None else f'up to {examples:,}'} training examples, of "
        scale += f"which validation keeps {settings.validation_share:.0%}; {settings.model}, "
        scale += f"{settings.epochs} epochs, batches of {settings.batch_size}"
        scale += "" if settings.precision == "32-true" else f", computed in {settings.precision}"
        scales.setdefault(scale, []).append(column.title)
    for scale, titles in scales.items():
        notes.append(f"preset {plan.preset.name}, {', '.join(titles)}: {scale}")
    for dataset in dict.fromkeys(column.dataset for column in columns):
        source = plan.sources.source_of(dataset)
        if source is not None:
            notes.append(f"{dataset} was read from {source!r}, which is not the published data set")
    for modality in dict.fromkeys(column.modality for column in columns):
        backbone = plan.sources.backbone_name(modality)
        if backbone is not None:
            marks = plan.sources.backbone_for(modality)
            name = Path(backbone.partition(":")[2].partition("?")[0]).name
            notes.append(f"embeddings of each {modality}: {name}, hash {marks}")
    notes += _environments(finished)
    return notes


def _environments(finished: Sequence[FinishedRun]) -> list[str]:
    """Return with which versions and on which machines the runs were done, as they recorded it."""
    counts: Counter[str] = Counter()
    for run in finished:
        path = run.folder.environment
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            counts[
                f"noisebound {found['noisebound']}, torch {found['torch']}, Python "
                f"{found['python']}, {found['device']} with {found['cores']} cores"
            ] += 1
    return [f"{count} of {len(finished)} runs: {words}" for words, count in counts.items()]
