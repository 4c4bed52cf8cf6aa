"""Reproduce a table: plan its runs, do the missing ones, write the table."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from noisebound.errors import InvalidValueError
from noisebound.paper import Target, Weights
from noisebound.paper.bound_table import comparison_table, noise_bound_table
from noisebound.paper.figures import rate_sweep_figure, write_figure
from noisebound.paper.frame import FinishedRun, finished_runs, long_frame
from noisebound.paper.plan import Plan, RunConfig
from noisebound.paper.protocol import (
    BOUNDED,
    COLUMNS,
    METHODS,
    SEARCHED_METHODS,
    Column,
    choose,
    columns_of,
    find_columns,
)
from noisebound.paper.run import RunStore
from noisebound.paper.sweep import Workers, run_sweep
from noisebound.paper.tables import Selection, accuracy_table, offset_table, rate_table
from noisebound.report.table import Table, write_table
from noisebound.system.files import write_json, write_text

_TABLES = {"offsets": offset_table, "rate-sweep": rate_table}


@dataclass(frozen=True)
class Request:
    """A table to reproduce.

    Args:
        target: the table
        plan: makes the configs of the runs
        columns: the names of columns; by default the table's
        methods: the names of methods; by default the table's
        weights: the weights that the table evaluates
        name: the stem of the file names; by default the target
        only: the methods to train; the table shows all finished runs
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
        """The stem of the file names, with ``-averaged`` for averaged weights."""
        return (self.name or self.target) + ("-averaged" if self.weights == "averaged" else "")

    def check(self) -> None:
        """Raise an error if the table would be empty, before hours are spent on its runs."""
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
            return find_columns(self.columns)
        match self.target:
            case "bound-table":
                return tuple(each for each in COLUMNS.values() if each.table != "pretrained")
            case "offsets":
                return columns_of("table1", "table2")
            case "rate-sweep":
                return find_columns(["emnist-0.4", "cifar10-0.4"])
            case table:
                return columns_of(table)

    def chosen_methods(self) -> tuple[str, ...]:
        """Return the methods of the table."""
        if self.target not in ("offsets", "rate-sweep"):
            names = METHODS if self.methods is None else self.methods
            return choose(names, (*METHODS, *SEARCHED_METHODS), "method")
        usual, suffix = (BOUNDED, "+b*") if self.target == "offsets" else (("ce", "sce"), "+b")
        names = usual if self.methods is None else self.methods
        losses = choose([name.partition("+")[0] for name in names], BOUNDED, "bounded loss")
        return tuple(loss + suffix for loss in losses)

    def due_runs(self) -> list[RunConfig]:
        """Return the runs to do, unless they are finished."""
        return self.runs() if self.only is None else replace(self, methods=self.only).runs()

    def runs(self) -> list[RunConfig]:
        """Return every run that the table needs."""
        columns, methods = self.chosen_columns(), self.chosen_methods()
        if self.target == "bound-table":
            return []
        if self.target == "rate-sweep":
            pairs = product(columns, methods)
            return [run for pair in pairs for run in self.plan.rate_runs(*pair)]
        return self.plan.table_runs(columns, methods)


@dataclass(frozen=True)
class Reproduction:
    """The tables of all finished runs, their files, and the errors of failed runs."""

    tables: tuple[Table, ...]
    files: tuple[Path, ...]
    failures: Mapping[RunConfig, str]


def reproduce(request: Request, out: Path, workers: Workers) -> Reproduction:
    """Do the unfinished runs in ``out/runs``, and write the tables to ``out``."""
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
    tables = _tables(request, finished_runs(store, runs))
    files = [path for table in tables for path in write_table(table, out)]
    if request.target == "rate-sweep" and tables[0].records:
        files += write_figure(rate_sweep_figure(tables[0].records), out, request.file_name)
    return Reproduction(tuple(tables), tuple(files), failures)


def _tables(request: Request, finished: Sequence[FinishedRun]) -> list[Table]:
    columns = request.chosen_columns()
    if request.target == "bound-table":
        return [comparison_table(), noise_bound_table(columns)]
    selection = Selection(
        request.file_name,
        long_frame(finished),
        columns,
        request.chosen_methods(),
        request.weights,
        _circumstances(request, finished),
    )
    return [_TABLES.get(request.target, accuracy_table)(selection)]


def _check_sources(request: Request, record: Path) -> None:
    """Raise an error if the name of a private data set meant other data in earlier runs."""
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
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
    scales: dict[str, list[str]] = {}
    for column in columns:
        settings = plan.preset.settings_for(column.dataset)
        examples = settings.train_examples
        scale = (
            f"{'all' if examples is None else f'up to {examples:,}'} training examples, "
            f"{settings.validation_share:.0%} of them for validation; {settings.model}, "
            f"{settings.epochs} epochs, batches of {settings.batch_size}"
        )
        if settings.precision != "32-true":
            scale += f", computed in {settings.precision}"
        scales.setdefault(scale, []).append(column.title)
    notes = [
        f"preset {plan.preset.name}, {', '.join(titles)}: {scale}"
        for scale, titles in scales.items()
    ]
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
    environments = (run.folder.environment for run in finished)
    machines = Counter(
        "noisebound {noisebound}, torch {torch}, Python {python}, {device} with {cores} "
        "cores".format_map(json.loads(path.read_text(encoding="utf-8")))
        for path in environments
        if path.exists()
    )
    return notes + [f"{count} of {len(finished)} runs: {each}" for each, count in machines.items()]
