"""One run in its own folder: it is trained once, however often it is asked for or interrupted."""

import os
import platform
import shutil
import traceback
from dataclasses import dataclass, replace
from importlib.metadata import version

import torch
from filelock import FileLock
from lightning_fabric import Fabric

from noisebound.console import warnings_as_notes
from noisebound.files import write_json
from noisebound.paper.protocol.run_config import RunConfig
from noisebound.paper.protocol.sources import DataSources, noisy_splits
from noisebound.paper.runner.classical import learn_classically
from noisebound.paper.runner.granularity import objective_factory
from noisebound.paper.runner.label_findings import (
    findings_of_cleanlab,
    findings_of_run,
    write_findings,
)
from noisebound.paper.runner.pruning import prune
from noisebound.paper.runner.run_store import RunStore
from noisebound.paper.runner.told import told
from noisebound.runs import train_run


@dataclass(frozen=True)
class Execution:
    """Where and how runs are done; results do not depend on it.

    Args:
        store: the folders of the runs
        sources: where the data is
        sweep: the name of the sweep that does the runs
        threads: the number of torch's threads; None to leave it as it is
        checkpoint_seconds: at most so much work is lost when a run is interrupted, not counting the
            epoch under way
    """

    store: RunStore
    sources: DataSources
    sweep: str = "alone"
    threads: int | None = None
    checkpoint_seconds: float = 30.0


def execute(run: RunConfig, execution: Execution) -> None:
    """Train a run, unless it is finished.

    A failure is recorded in the run's folder, and the next call tries again. A lock keeps two
    sweeps from training the same run at once: the second waits and then finds it finished.
    """
    store = execution.store
    folder = store.folder(run)
    folder.path.mkdir(parents=True, exist_ok=True)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    with FileLock(folder.lock):
        store.write_config(run)
        if store.state(run) == "finished":
            return
        store.forget_failure(run)
        store.forget_damaged_result(run)
        store.mark_running(run, execution.sweep)
        try:
            with warnings_as_notes(lambda text: f"{run.description}: {text}"):
                _train(run, execution)
        except Exception as error:
            store.record_failure(run, f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            store.unmark(run)


def _train(run: RunConfig, execution: Execution) -> None:
    folder = execution.store.folder(run)
    write_json(folder.environment, _environment())
    splits = noisy_splits(run, execution.sources)
    training = told(run.training, run.knows, splits.train)
    if run.learner != "network":
        learn_classically(run.learner, splits, training, folder, run.key)
        return
    given, findings = splits, None
    if run.prunes:
        pruned = prune(splits.train, training, folder)
        findings = findings_of_cleanlab(pruned, splits.train, training)
        given = replace(splits, train=pruned.train)
    done = train_run(
        given,
        training,
        folder.path,
        resume=True,
        checkpoint_seconds=execution.checkpoint_seconds,
        objective_factory=objective_factory(run.granularity),
        show=False,
        fabric=Fabric(devices=1, precision=run.precision),
    )
    if run.judges_labels and findings is None:
        findings = findings_of_run(done, splits)
    if findings is not None:
        write_findings(folder, findings)
    for finished_with in (folder.checkpoints, folder.folds):
        shutil.rmtree(finished_with, ignore_errors=True)


def _environment() -> dict[str, str | int | None]:
    """Return the versions and the machine, which may explain why two runs differ."""
    return {
        "noisebound": version("noisebound"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
