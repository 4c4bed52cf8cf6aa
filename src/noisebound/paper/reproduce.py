"""Reproduce a table: plan its runs, do the missing ones, write the table."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from noisebound.pages.table import Table, write_table
from noisebound.paper import Target, Weights
from noisebound.paper.figures import rate_sweep_figure, write_figure
from noisebound.paper.frame import FinishedRun, finished_runs, long_frame
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
from noisebound.paper.run import Plan, RunConfig, RunStore
from noisebound.paper.sweep import run_sweep
from noisebound.paper.tables import (
    Selection,
    accuracy_table,
    comparison_table,
    noise_bound_table,
    offset_table,
    rate_table,
)
from noisebound.system.files import write_text


@dataclass(frozen=True)
class Request:
    """A table to reproduce."""

    target: Target
    plan: Plan  # makes the configs of the runs
    columns: Sequence[str] | None = None  # by name; by default the table's
    methods: Sequence[str] | None = None  # by name; by default the table's
    weights: Weights = "last"  # that the table evaluates
    name: str | None = None  # the stem of the file names; by default the target

    def chosen_columns(self) -> tuple[Column, ...]:
        if self.columns is not None:
            return find_columns(self.columns)
        if self.target == "bound-table":
            return tuple(each for each in COLUMNS.values() if each.table != "pretrained")
        if self.target == "rate-sweep":
            return find_columns(["emnist-0.4", "cifar10-0.4"])
        tables = ("table1", "table2") if self.target == "offsets" else (self.target,)
        return columns_of(*tables)

    def chosen_methods(self) -> tuple[str, ...]:
        if self.target not in ("offsets", "rate-sweep"):
            names = METHODS if self.methods is None else self.methods
            return choose(names, (*METHODS, *SEARCHED_METHODS), "method")
        usual, suffix = (BOUNDED, "+b*") if self.target == "offsets" else (("ce", "sce"), "+b")
        names = usual if self.methods is None else self.methods
        losses = choose([name.partition("+")[0] for name in names], BOUNDED, "bounded loss")
        return tuple(loss + suffix for loss in losses)

    def runs(self) -> list[RunConfig]:
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

    tables: Sequence[Table]
    files: Sequence[Path]
    failures: Mapping[RunConfig, str]


def reproduce(
    request: Request, out: Path, jobs: int | None = None, cluster: str | None = None
) -> Reproduction:
    """Do the unfinished runs in ``out/runs``, and write the tables to ``out``."""
    columns, methods, runs = request.chosen_columns(), request.chosen_methods(), request.runs()
    if request.target == "bound-table":
        tables = [comparison_table(), noise_bound_table(columns)]
        return Reproduction(
            tables, [path for each in tables for path in write_table(each, out)], {}
        )
    name, store = request.name or request.target, RunStore(out / "runs")
    name += "-averaged" if request.weights == "averaged" else ""
    write_text(out / f"{name}-preset.json", request.plan.preset.to_json() + "\n")
    failures = run_sweep(runs, store, request.plan.sources, jobs, cluster)
    finished = finished_runs(store, runs)
    notes = _circumstances(request.plan, columns, finished)
    make = {"offsets": offset_table, "rate-sweep": rate_table}.get(request.target, accuracy_table)
    table = make(Selection(name, long_frame(finished), columns, methods, request.weights, notes))
    files = write_table(table, out)
    if request.target == "rate-sweep" and table.records:
        files += write_figure(rate_sweep_figure(table.records), out, name)
    return Reproduction([table], files, failures)


def _circumstances(
    plan: Plan, columns: Sequence[Column], finished: Sequence[FinishedRun]
) -> list[str]:
    scales: dict[str, list[str]] = {}
    for column in columns:
        each = plan.preset.settings_for(column.dataset)
        examples = "all" if each.train_examples is None else f"up to {each.train_examples:,}"
        scale = (
            f"{examples} training examples, {each.validation_share:.0%} of them for validation; "
            f"{each.model}, {each.epochs} epochs, batches of {each.batch_size}"
        )
        if each.precision != "32-true":
            scale += f", computed in {each.precision}"
        scales.setdefault(scale, []).append(column.title)
    notes = [f"preset {plan.preset.name}, {', '.join(scales[each])}: {each}" for each in scales]
    for dataset in dict.fromkeys(column.dataset for column in columns):
        source = plan.sources.source_of(dataset)
        if source is not None:
            notes.append(f"{dataset} was read from {source!r}, not from the published data set")
    if plan.sources.backbones:
        for modality in dict.fromkeys(column.modality for column in columns):
            backbone = plan.sources.backbone_name(modality)
            name = Path(backbone.partition(":")[2].partition("?")[0]).name
            marks = plan.sources.backbone_for(modality)
            notes.append(f"embeddings of each {modality}: {name}, hash {marks}")
    machines = Counter(
        "noisebound {noisebound}, torch {torch}, Python {python}, {device} with {cores} "
        "cores".format_map(json.loads(run.folder.environment.read_text(encoding="utf-8")))
        for run in finished
        if run.folder.environment.exists()
    )
    return notes + [f"{count} of {len(finished)} runs: {each}" for each, count in machines.items()]
