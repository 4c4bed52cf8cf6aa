"""One run in its own folder: it is trained once, however often it is asked for or interrupted."""

import json
import os
import platform
import shutil
import traceback
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from filelock import FileLock
from lightning_fabric import Fabric

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

State: TypeAlias = Literal["waiting", "running", "finished", "failed"]


def noisy_splits(run: RunConfig, sources: DataSources) -> Splits:
    """Return the noisy training data of a run, and the clean test set.

    Noise is added before examples are drawn. So the linear classifier behind non-uniform noise is
    trained on the whole training set; one that has memorized a few examples would make less noise.
    """
    if run.backbone is None:
        splits = sources.load(run.dataset)
    else:
        splits = sources.embedded(run.dataset, run.backbone)
    train, seed = splits.train, run.training.seed
    if run.noise is not None:
        is_classifiers = run.noise == "classifier"
        noisy = corrupt(
            train.labels,
            run.noise,
            run.noise_rate,
            train.num_classes,
            generator=torch.Generator().manual_seed(seed),
            probs=sources.linear_probabilities(run.dataset) if is_classifiers else None,
        )
        train = train.with_labels(noisy.labels)
    if run.train_examples is not None and run.train_examples < len(train):
        train = train.take(run.train_examples, seed)
    return replace(splits, train=train, train_names=None)


class RunStore:
    """The folders of runs, each named by the hash of its run's config.

    A sweep marks the runs that its workers are doing with its own name. So it ignores the marks of
    other sweeps, and of earlier ones that were killed.

    Args:
        path: the folder that holds them
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, run: RunConfig) -> RunFolder:
        """Return the folder of a run, which need not exist yet."""
        return RunFolder(self.path / run.key)

    def result(self, run: RunConfig) -> RunResult | None:
        """Return the result of a run; None if it is not finished, or its result is damaged."""
        return _whole_result(self.folder(run))

    def error(self, run: RunConfig) -> str | None:
        """Return why a run failed; None if it did not."""
        try:
            failure = json.loads(self.folder(run).failure.read_text(encoding="utf-8"))
            return str(failure["error"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None

    def state(self, run: RunConfig, sweep: str | None = None) -> State:
        """Return whether a run is waiting, running, finished or failed.

        Args:
            run: the run
            sweep: the sweep whose runs count as running
        """
        if self.result(run) is not None:
            return "finished"
        if self.error(run) is not None:
            return "failed"
        if sweep is not None and self._doer(run) == sweep:
            return "running"
        return "waiting"

    def write_config(self, run: RunConfig) -> None:
        """Write the run's config into its folder, unless it is there."""
        path = self.folder(run).experiment
        if not path.exists():
            write_text(path, run.model_dump_json(indent=2) + "\n")

    def mark_running(self, run: RunConfig, sweep: str) -> None:
        """Note that a worker of this sweep has begun the run."""
        write_text(self.folder(run).running, sweep)

    def unmark(self, run: RunConfig) -> None:
        """Note that no worker is doing the run."""
        self.folder(run).running.unlink(missing_ok=True)

    def forget_failure(self, run: RunConfig) -> None:
        """Remove the record of a failure, before the run is tried again."""
        self.folder(run).failure.unlink(missing_ok=True)

    def forget_damaged_result(self, run: RunConfig) -> None:
        """Remove a result that cannot be read, so that the run can be trained again."""
        folder = self.folder(run)
        if _whole_result(folder) is None:
            folder.result.unlink(missing_ok=True)

    def record_failure(self, run: RunConfig, error: str, trace: str) -> None:
        """Write why the run failed."""
        write_json(self.folder(run).failure, {"error": error, "traceback": trace})

    def _doer(self, run: RunConfig) -> str | None:
        try:
            return self.folder(run).running.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def _whole_result(folder: RunFolder) -> RunResult | None:
    try:
        return read_result(folder)
    except (DataError, RunError):
        return None


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
    train_run(
        noisy_splits(run, execution.sources),
        run.training,
        folder.path,
        resume=True,
        checkpoint_seconds=execution.checkpoint_seconds,
        show=False,
        fabric=Fabric(devices=1, precision=run.precision),
    )
    shutil.rmtree(folder.checkpoints, ignore_errors=True)


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
