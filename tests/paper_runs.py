"""Small sweeps on the digits, for tests of the runner."""

import json
import os
import signal
import time
from pathlib import Path

from noisebound.data import Splits
from noisebound.estimation import UnknownNoise
from noisebound.paper.frame import FinishedRun
from noisebound.paper.plan import Plan, RunConfig
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import RunStore, execute
from noisebound.paper.sources import DataSources
from noisebound.runs.result import RunResult
from noisebound.training import EpochMetrics

COLUMN = COLUMNS["digits-0.4"]
QUICK = ("epochs=2", "train_examples=200", "batch_size=50")
LONG = ("epochs=60", "train_examples=400", "batch_size=20", "measure_every=1")
"""Long enough to be killed in the middle."""


def digit_runs(methods, seeds=(0,), sources=None, settings=QUICK) -> list[RunConfig]:
    """A run for each method and seed."""
    plan = Plan(CPU.override(settings), tuple(seeds), sources or DataSources())
    return plan.table_runs([COLUMN], methods)


RAY_RUNS = [*digit_runs(["ce", "ce+b"], settings=LONG), *digit_runs(["ce", "ce+b", "elr"], [0, 1])]
"""Of which the first two are under way when a worker is killed."""


def do_runs_here(runs, execution, workers) -> None:
    """In place of `do_runs`: starting workers takes seconds, and paper/test_sweep.py tests it."""
    for run in runs:
        execute(run, execution)


class DeadlySources(DataSources):
    """Data that kills whoever loads it, as running out of memory would; the digits excepted."""

    def load(self, dataset: str, backbone: str | None = None) -> Splits:
        if dataset != "digits":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load(dataset, backbone)


def finished_run(
    run: RunConfig,
    final: EpochMetrics,
    *,
    bound: float | None = None,
    best: EpochMetrics | None = None,
    store: RunStore | None = None,
) -> FinishedRun:
    """A finished run that nobody has trained."""
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
    """All that a run found out, but for how long it took."""
    lines = store.folder(run).metrics.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {record["epoch"]: record | {"seconds": None} for record in records}


def first_seconds(store: RunStore, run: RunConfig) -> float | None:
    """How long the first of three or more epochs took: no two are alike to the last digit."""
    lines = _epochs(store.folder(run).metrics)
    return json.loads(lines[0])["seconds"] if len(lines) >= 3 else None


def _epochs(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def kill_a_worker(store: RunStore, name: str) -> int:
    """When a run has done three epochs: kill a process whose command line holds ``name``."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(len(_epochs(path)) >= 3 for path in store.path.glob("*/metrics.jsonl")):
            found = descendants(name)
            if found:
                os.kill(found[0], signal.SIGKILL)
                return found[0]
        time.sleep(0.05)
    raise TimeoutError(f"no process {name} has done three epochs")


def descendants(name: str) -> list[int]:
    """Descendants of this process with this name, so that other tests' are left alone."""
    parents, named = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            pid, status = int(path.name), (path / "stat").read_text()
            command = (path / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        parents[pid] = int(status.rpartition(")")[2].split()[1])
        named += [pid] if name in command else []
    return [pid for pid in named if _descends(pid, parents)]


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False
