"""One call for each table: make its runs, do those that are missing, write what they show."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from noisebound.data.folders import written_whole
from noisebound.experiments.accuracy_table import accuracy_table
from noisebound.experiments.bound_table import comparison_table, noise_bound_table
from noisebound.experiments.columns import (
    COLUMNS,
    TABLE_TITLES,
    Column,
    columns_of,
    find_columns,
)
from noisebound.experiments.finished import Measurements, Weights, finished_runs
from noisebound.experiments.methods import (
    METHODS,
    SEARCHED,
    SEARCHED_METHODS,
    check_methods,
)
from noisebound.experiments.offset_search import offset_table
from noisebound.experiments.plan import Plan
from noisebound.experiments.rate_sweep import rate_curves, rate_table
from noisebound.experiments.run import RunConfig, RunStore
from noisebound.experiments.sweep import Workers, run_sweep
from noisebound.report.figures import rate_sweep_figure, write_figure
from noisebound.report.table import Table
from noisebound.report.table_formats import write_table

Target: TypeAlias = Literal[
    "table1", "table2", "open-set", "own", "offsets", "rate-sweep", "bound-table"
]
TARGETS: tuple[Target, ...] = get_args(Target)


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Args:
        target: the table
        plan: scale, seeds and data
        columns: by name; None for those of the table
        methods: by name; None for those of the table
        weights: which weights the tables judge
    """

    target: Target
    plan: Plan
    columns: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    weights: Weights = "last"

    @property
    def name(self) -> str:
        """Of the files: those about averaged weights stand beside the others."""
        return self.target + ("-averaged" if self.weights == "averaged" else "")

    def chosen_columns(self) -> tuple[Column, ...]:
        """The columns asked for."""
        if self.columns is not None:
            return find_columns(self.columns)
        match self.target:
            case "bound-table":
                return tuple(COLUMNS.values())
            case "offsets":
                return (*columns_of("table1"), *columns_of("table2"))
            case "rate-sweep":
                return find_columns(["emnist-0.4", "cifar10-0.4"])
            case table:
                return columns_of(table)

    def chosen_methods(self) -> tuple[str, ...]:
        """The methods asked for, as the table spells them."""
        match self.target:
            case "offsets":
                asked = self.methods or SEARCHED_METHODS
                return check_methods([f"{_loss(method)}{SEARCHED}" for method in asked])
            case "rate-sweep":
                asked = self.methods or ("ce", "sce")
                return check_methods([f"{_loss(method)}+b" for method in asked])
            case _:
                return check_methods(self.methods or METHODS)

    def runs(self) -> list[RunConfig]:
        """All that the table needs."""
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
        return self.plan.table_runs(columns, methods)


def _loss(method: str) -> str:
    return method.partition("+")[0]


@dataclass(frozen=True)
class Reproduction:
    """What came of a request.

    Args:
        tables: as far as runs are finished
        files: what was written
        failures: the runs that failed, with their errors
    """

    tables: tuple[Table, ...]
    files: tuple[Path, ...]
    failures: Mapping[RunConfig, str]


def reproduce(request: Request, out: Path, workers: Workers) -> Reproduction:
    """Do those runs in ``out/runs`` that are not finished; write the tables to ``out``."""
    store, runs = RunStore(out / "runs"), request.runs()
    failures: Mapping[RunConfig, str] = {}
    if runs:
        with written_whole(out / f"{request.target}-preset.json") as part:
            part.write_text(request.plan.preset.model_dump_json(indent=2) + "\n", encoding="utf-8")
        failures = run_sweep(runs, store, request.plan.sources, workers)
    measurements = Measurements(finished_runs(store, runs))
    tables = _TABLES[request.target](request, measurements)
    files = [path for table in tables for path in write_table(table, out)]
    if request.target == "rate-sweep" and tables[0].records:
        files += write_figure(rate_sweep_figure(rate_curves(tables[0].records)), out, request.name)
    return Reproduction(tuple(tables), tuple(files), failures)


def _accuracy(request: Request, measurements: Measurements) -> list[Table]:
    return [
        accuracy_table(
            request.name,
            TABLE_TITLES[request.target],
            measurements,
            request.chosen_columns(),
            request.chosen_methods(),
            weights=request.weights,
            notes=_circumstances(request),
        )
    ]


def _offsets(request: Request, measurements: Measurements) -> list[Table]:
    return [
        offset_table(
            request.name,
            measurements,
            request.chosen_columns(),
            [_loss(method) for method in request.chosen_methods()],
            weights=request.weights,
            notes=_circumstances(request),
        )
    ]


def _rates(request: Request, measurements: Measurements) -> list[Table]:
    return [
        rate_table(
            request.name,
            measurements,
            request.chosen_columns(),
            request.chosen_methods(),
            weights=request.weights,
            notes=_circumstances(request),
        )
    ]


def _bounds(request: Request, measurements: Measurements) -> list[Table]:
    return [comparison_table(), noise_bound_table(request.chosen_columns())]


_TABLES: dict[Target, Callable[[Request, Measurements], list[Table]]] = {
    "table1": _accuracy,
    "table2": _accuracy,
    "open-set": _accuracy,
    "own": _accuracy,
    "offsets": _offsets,
    "rate-sweep": _rates,
    "bound-table": _bounds,
}


def _circumstances(request: Request) -> list[str]:
    """At what scale, on what data and on what machine."""
    plan, columns = request.plan, request.chosen_columns()
    notes = []
    scales: dict[str, list[str]] = {}
    for column in columns:
        settings = plan.preset.settings_for(column.dataset)
        examples = settings.train_examples
        scale = f"{'all' if examples is None else f'{examples:,}'} training examples, of which "
        scale += f"{settings.validation_share:.0%} are held out; {settings.model}, "
        scale += f"{settings.epochs} epochs, batches of {settings.batch_size}"
        scales.setdefault(scale, []).append(column.title)
    for scale, titles in scales.items():
        notes.append(f"preset {plan.preset.name}, {', '.join(titles)}: {scale}")
    for dataset in dict.fromkeys(column.dataset for column in columns):
        source = plan.sources.source_of(dataset)
        if source is not None:
            notes.append(f"{dataset} was taken from {source!r}: not the published data set")
    notes.append(
        f"{len(plan.seeds)} seeds; noisebound {version('noisebound')}, torch {version('torch')}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    return notes
