"""Cells of the experiment on estimates: a setting, a seed and a part, each one file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from joblib import Parallel, delayed, parallel_config

from noisebound.errors import InvalidValueError
from noisebound.files import write_json
from noisebound.paper.protocol.estimate_data import estimate_data
from noisebound.paper.protocol.estimate_settings import EstimateSetting
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.runner.accuracy_findings import accuracy_findings
from noisebound.paper.runner.estimate_predictions import predictions_of
from noisebound.paper.runner.rate_findings import rate_findings
from noisebound.paper.runner.suspect_findings import suspect_findings
from noisebound.paper.runner.workers import Workers
from noisebound.progress import counting
from noisebound.training.cores import usable_cores

EstimatePart: TypeAlias = Literal["estimates", "suspects", "accuracy"]
ESTIMATE_PARTS: tuple[EstimatePart, ...] = get_args(EstimatePart)


@dataclass(frozen=True)
class EstimateCell:
    """One measurement.

    Args:
        setting: the data and its noise
        seed: draws examples, noise, weights and orders
        part: what is measured
        method: the method whose accuracy is measured; None in the other parts
    """

    setting: EstimateSetting
    seed: int
    part: EstimatePart
    method: str | None = None

    @property
    def key(self) -> str:
        """The name of the cell's file, without its ending."""
        method = "" if self.method is None else f"-{self.method}"
        return f"{self.setting.name}-{self.seed}-{self.part}{method}"

    @property
    def description(self) -> str:
        """What is measured, in words."""
        method = "" if self.method is None else f" of {self.method}"
        return f"{self.part}{method} in {self.setting.name}, seed {self.seed}"


class CellStore:
    """The files of the cells, and those of the predictions that they share.

    Args:
        path: the folder that holds them
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def predictions(self, cell: EstimateCell) -> Path:
        """Return the file of the out-of-fold predictions of the cell's setting and seed."""
        return self.path / f"{cell.setting.name}-{cell.seed}.safetensors"

    def read(self, cell: EstimateCell) -> dict[str, Any] | None:
        """Return what was measured; None if it is not done, or its file is damaged."""
        try:
            found: dict[str, Any] = json.loads(self._file(cell).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found

    def write(self, cell: EstimateCell, found: Any) -> None:
        """Write what was measured, whole or not at all."""
        write_json(self._file(cell), found)

    def _file(self, cell: EstimateCell) -> Path:
        return self.path / f"{cell.key}.json"


def do_cells(
    cells: Sequence[EstimateCell], store: CellStore, sources: DataSources, workers: Workers
) -> dict[EstimateCell, str]:
    """Do the cells that are not done; return those that failed, with their errors.

    Args:
        cells: the cells
        store: keeps what is measured; a cell that it holds is not done again
        sources: where the data is
        workers: how many cells are done at once, on this machine
    """
    if workers.cluster is not None:
        raise InvalidValueError("estimates are measured on this machine: leave `cluster` out")
    missing = [cell for cell in cells if store.read(cell) is None]
    cores = usable_cores()
    jobs = workers.jobs or cores
    threads = workers.threads or max(1, cores // jobs)
    failures: dict[EstimateCell, str] = {}
    with (
        counting("cells", len(cells), done=len(cells) - len(missing)) as count,
        parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads),
    ):
        tasks = (delayed(_do)(cell, store, sources, threads) for cell in missing)
        for cell, error in Parallel(batch_size=1, return_as="generator_unordered")(tasks):
            count.advance()
            if error is not None:
                failures[cell] = error
    return failures


def _do(
    cell: EstimateCell, store: CellStore, sources: DataSources, threads: int
) -> tuple[EstimateCell, str | None]:
    """Do a cell; an error is returned, so that the other cells are done all the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        store.write(cell, _measured(cell, store, sources))
    except Exception as error:
        return cell, f"{type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(before)  # one job at a time is done in the caller's own process
    return cell, None


def _measured(cell: EstimateCell, store: CellStore, sources: DataSources) -> Any:
    setting, seed = cell.setting, cell.seed
    if cell.method is not None:
        return accuracy_findings(cell.method, setting, estimate_data(setting, seed, sources), seed)
    found = predictions_of(setting, seed, sources, store.predictions(cell))
    return rate_findings(found, seed) if cell.part == "estimates" else suspect_findings(found)
