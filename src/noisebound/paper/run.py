"""One run in its own folder: it is trained once, however often it is asked for or interrupted."""

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

    Noise is added before examples are drawn. So the linear classifier behind non-uniform noise is
    trained on the whole training set; one that has memorized a few examples would make less noise.
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
    """A folder that holds the folders of runs, each named by the hash of its run's config."""

    path: Path

    def folder(self, run: RunConfig) -> RunFolder:
        """Return the folder of a run, which need not exist yet."""
        return RunFolder(self.path / run.key)

    def result(self, run: RunConfig) -> RunResult | None:
        """Return the result of a run that is finished and not damaged."""
        try:
            return read_result(self.folder(run))
        except (DataError, RunError):
            return None

    def error(self, run: RunConfig) -> str | None:
        """Return why a run failed, if it did."""
        try:
            return str(json.loads(self.folder(run).failure.read_text(encoding="utf-8"))["error"])
        except FileNotFoundError:
            return None

    def state(self, run: RunConfig, sweep: str | None = None) -> State:
        """Return the state of a run, which only this sweep's mark makes "running".

        The marks of other sweeps, such as killed ones, are ignored.
        """
        if self.result(run) is not None:
            return "finished"
        if self.error(run) is not None:
            return "failed"
        mark = self.folder(run).running
        if sweep is not None and mark.exists() and mark.read_text(encoding="utf-8") == sweep:
            return "running"
        return "waiting"

    def record_failure(self, run: RunConfig, error: str, trace: str = "") -> None:
        """Write why the run failed."""
        write_json(self.folder(run).failure, {"error": error, "traceback": trace})


@dataclass(frozen=True)
class Execution:
    """Where and how runs are done; results do not depend on it.

    Args:
        store: the folders of the runs
        sources: where the data is
        sweep: the name of the sweep that does the runs
        threads: the number of torch's threads; by default unchanged
        checkpoint_seconds: seconds between checkpoints, which are written after an epoch
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
        if not folder.experiment.exists():
            write_text(folder.experiment, run.model_dump_json(indent=2) + "\n")
        if store.state(run) == "finished":
            return
        for path in (folder.failure, folder.result):  # a result that is there is damaged
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
