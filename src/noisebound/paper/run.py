"""One run in its own folder. It is trained once, even if it is interrupted or requested again."""

import json
import os
import platform
import shutil
import traceback
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from filelock import FileLock

from noisebound.corruption import corrupt
from noisebound.data import Splits
from noisebound.errors import DataError, RunError
from noisebound.paper.plan import RunConfig
from noisebound.paper.sources import DataSources
from noisebound.runs import train_run
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult, read_result
from noisebound.system.console import warnings_as_notes
from noisebound.system.files import write_json, write_text
from noisebound.training.config import Precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric

State: TypeAlias = Literal["waiting", "running", "finished", "failed"]


def noisy_splits(run: RunConfig, sources: DataSources) -> Splits:
    """Return the noisy training data of a run, and the clean test set.

    Noise is added before examples are drawn, so that the linear classifier behind non-uniform noise
    is trained on the whole training set. If it memorized a small sample, it would make less noise.
    """
    splits = sources.load(run.dataset, run.backbone)
    train, seed = splits.train, run.training.seed
    if run.noise is not None:
        needs_probs = run.noise == "classifier"
        noisy = corrupt(
            train.labels,
            run.noise,
            run.noise_rate,
            train.num_classes,
            generator=torch.Generator().manual_seed(seed),
            probs=sources.linear_probabilities(run.dataset) if needs_probs else None,
        )
        train = train.with_labels(noisy.labels)
    if run.train_examples is not None and run.train_examples < len(train):
        train = train.take(run.train_examples, seed)
    return replace(splits, train=train, train_names=None)


@dataclass(frozen=True)
class RunStore:
    """A folder with a folder per run, named by the hash of the run's config."""

    path: Path

    def folder(self, run: RunConfig) -> RunFolder:
        """Return the folder of a run, which may not exist yet."""
        return RunFolder(self.path / run.key)

    def result(self, run: RunConfig) -> RunResult | None:
        """Return the result of a finished run; None if it is missing or damaged."""
        try:
            return read_result(self.folder(run))
        except (DataError, RunError):
            return None

    def error(self, run: RunConfig) -> str | None:
        """Return the error of a failed run."""
        try:
            return str(json.loads(self.folder(run).failure.read_text(encoding="utf-8"))["error"])
        except FileNotFoundError:
            return None

    def state(self, run: RunConfig, sweep: str | None = None) -> State:
        """Return the state of a run; "running" by another sweep, which may be dead, is ignored."""
        if self.result(run) is not None:
            return "finished"
        if self.error(run) is not None:
            return "failed"
        mark = self.folder(run).running
        if sweep is not None and mark.exists() and mark.read_text(encoding="utf-8") == sweep:
            return "running"
        return "waiting"

    def record_failure(self, run: RunConfig, error: str, trace: str = "") -> None:
        """Write the error of a failed run."""
        write_json(self.folder(run).failure, {"error": error, "traceback": trace})


@dataclass(frozen=True)
class Execution:
    """How runs are done; results do not depend on it."""

    store: RunStore
    sources: DataSources
    sweep: str = "alone"  # the name of the sweep that does the runs
    threads: int | None = None  # of torch; unchanged by default
    checkpoint_seconds: float = 30.0  # between checkpoints, which are written after an epoch


def execute(run: RunConfig, execution: Execution) -> None:
    """Train a run, unless it is finished.

    A failure is recorded in the run's folder, and the next call tries again. If two sweeps want the
    same run, a lock makes the second wait; it then finds the run finished.
    """
    store = execution.store
    folder = store.folder(run)
    folder.path.mkdir(parents=True, exist_ok=True)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    with FileLock(folder.lock):
        if not folder.experiment.exists():
            write_text(folder.experiment, run.model_dump_json(indent=2) + "\n")
        if store.state(run) == "finished":
            return
        for path in (folder.failure, folder.result):  # an existing result is damaged
            path.unlink(missing_ok=True)
        write_text(folder.running, execution.sweep)
        try:
            with warnings_as_notes(lambda text: f"{run.description}: {text}"):
                _train(run, execution)
        except Exception as error:
            store.record_failure(run, f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            folder.running.unlink(missing_ok=True)


def _train(run: RunConfig, execution: Execution) -> None:
    folder = execution.store.folder(run)
    write_json(folder.environment, _environment())
    train_run(
        noisy_splits(run, execution.sources),
        run.training,
        folder.path,
        resume=True,
        checkpoint_seconds=execution.checkpoint_seconds,
        show=False,
        fabric=one_device(run.precision),
    )
    shutil.rmtree(folder.checkpoints, ignore_errors=True)


def one_device(precision: Precision) -> "Fabric | None":
    """Return Lightning Fabric, if the precision needs it."""
    if precision == "32-true":
        return None
    from lightning_fabric import Fabric

    return Fabric(devices=1, precision=precision)


def _environment() -> dict[str, str | int | None]:
    """Return versions and hardware, which may explain differences between runs."""
    return {
        "noisebound": version("noisebound"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
