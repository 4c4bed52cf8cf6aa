"""Small sweeps on the digits, for tests of the runner."""

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noisebound.cli import main
from noisebound.data import Splits
from noisebound.estimation import UnknownNoise
from noisebound.paper.frame import FinishedRun
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import DataSources, Plan, RunConfig, RunStore
from noisebound.paper.sweep import run_sweep
from noisebound.runs.keeper import FolderKeeper
from noisebound.runs.result import RunResult
from noisebound.training import EpochMetrics

COLUMN = COLUMNS["digits-0.4"]
QUICK = ("epochs=2", "train_examples=200", "batch_size=50")
LONGER = (*QUICK, "epochs=6")
"""Long enough to be killed in the middle."""


def digit_runs(methods, seeds=(0,), sources=None, settings=QUICK) -> list[RunConfig]:
    """A run for each method and seed."""
    plan = Plan(CPU.override(settings), tuple(seeds), sources or DataSources())
    return plan.table_runs([COLUMN], methods)


RAY_RUNS = [*digit_runs(["ce", "ce+b"], settings=LONGER), *digit_runs(["ce+b", "elr"], [0, 1])]
"""Of which the first two are under way when a worker is killed."""

SHARED_RUNS = digit_runs(["ce", "ce+b"], seeds=[0, 1])


@dataclass(frozen=True)
class InterruptedSources(DataSources):
    """Data that kills one process after its third epoch.

    Args:
        killed: the file in which that process writes its number
    """

    killed: Path = Path("nowhere")

    def load(self, dataset: str, backbone: str | None = None) -> Splits:
        keep_epoch = FolderKeeper.keep_epoch

        def keep_and_die(keeper, state, metrics, *, is_last):
            keep_epoch(keeper, state, metrics, is_last=is_last)
            if metrics.epoch == 3:
                with suppress(FileExistsError), self.killed.open("x") as file:
                    file.write(str(os.getpid()))
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)

        FolderKeeper.keep_epoch = keep_and_die  # in a worker process, which does nothing else
        return super().load(dataset, backbone)


def run_command(words: list[str]) -> None:
    """Run a command in this process, which gets a group of its own."""
    os.setsid()
    main(words)


def sweep_here(path: Path) -> None:
    """Do a few runs in this process."""
    assert run_sweep(SHARED_RUNS, RunStore(path), DataSources(), jobs=1) == {}


def finished_run(
    run: RunConfig,
    final: EpochMetrics,
    *,
    bound: float | None = None,
    best: EpochMetrics | None = None,
    store: RunStore | None = None,
) -> FinishedRun:
    """Return a finished run without training."""
    result = RunResult(
        identity="",
        inputs="",
        bound=bound,
        bound_origin=None if bound is None else "given",
        bound_reason=None if bound is None else "made up",
        noise=UnknownNoise(10),
        choice=None,
        floor=bound,
        memorizing_since=None,
        final=final,
        best_on_validation=best,
    )
    return FinishedRun(run, (store or RunStore(Path("nowhere"))).folder(run), result)


def measured(store: RunStore, run: RunConfig) -> dict:
    """Return the metrics of a run, without times."""
    lines = store.folder(run).metrics.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {record["epoch"]: record | {"seconds": None} for record in records}


def first_seconds(store: RunStore, run: RunConfig) -> float | None:
    """Return the seconds of the first of three or more epochs, which identify a training."""
    path = store.folder(run).metrics
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[0])["seconds"] if len(lines) >= 3 else None
