"""The experiment on estimates: its cells are planned, those that are missing done, and tabled."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.paper.outcome.estimate_tables import (
    Found,
    accuracy_table,
    rate_table,
    suspect_table,
)
from noisebound.paper.protocol.estimate_settings import HALVES, Half, find_settings
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.reproduce import Reproduction
from noisebound.paper.runner.accuracy_findings import check_estimate_methods
from noisebound.paper.runner.estimate_cells import (
    ESTIMATE_PARTS,
    CellStore,
    EstimateCell,
    EstimatePart,
    do_cells,
)
from noisebound.paper.runner.workers import Workers
from noisebound.report.table import Table
from noisebound.report.table_formats import write_table

EstimatesTarget: TypeAlias = Literal["estimates"]
HalfOrBoth: TypeAlias = Half | Literal["both"]


@dataclass(frozen=True)
class EstimatesRequest:
    """What to measure.

    Args:
        half: the half of the settings; ``"dev"`` is the one to choose constants on
        seeds: the seeds
        sources: where the data is
        part: what to measure; None for everything
        columns: names of settings, data sets or worlds; None for all
        methods: the methods whose accuracy is measured; None for all
    """

    half: HalfOrBoth
    seeds: Sequence[int]
    sources: DataSources
    part: EstimatePart | None = None
    columns: Sequence[str] | None = None
    methods: Sequence[str] | None = None

    def cells(self) -> list[EstimateCell]:
        """Return every cell, the cheapest parts first."""
        settings = find_settings(self.columns, HALVES if self.half == "both" else (self.half,))
        methods = check_estimate_methods(self.methods)
        parts = ESTIMATE_PARTS if self.part is None else (self.part,)
        return [
            EstimateCell(setting, seed, part, method)
            for part in parts
            for setting in settings
            for seed in self.seeds
            for method in (methods if part == "accuracy" else (None,))
        ]


def reproduce_estimates(request: EstimatesRequest, out: Path, workers: Workers) -> Reproduction:
    """Do the cells that are not done, and write the tables of those that are.

    Args:
        request: what to measure
        out: the folder for the tables; the cells are in its folder ``cells``
        workers: how many processes do the cells
    """
    require_cleanlab()
    store, cells = CellStore(out / "cells"), request.cells()
    failures = do_cells(cells, store, request.sources, workers)
    tables = _tables(cells, store)
    files = [path for table in tables for path in write_table(table, out)]
    return Reproduction(tuple(tables), tuple(files), failures)


def _tables(cells: Sequence[EstimateCell], store: CellStore) -> list[Table]:
    makers = {"estimates": rate_table, "suspects": suspect_table, "accuracy": accuracy_table}
    tables = []
    for part, make in makers.items():
        found: list[Found] = [
            (cell, each)
            for cell in cells
            if cell.part == part and (each := store.read(cell)) is not None
        ]
        if found:
            tables.append(make(found))
    return tables
