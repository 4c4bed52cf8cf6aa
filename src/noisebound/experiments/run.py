"""One run: a column's data with its noise, one method, one seed; in a folder of its own."""

import hashlib
import json
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from filelock import FileLock
from jaxtyping import Float64
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noisebound.corruption import NoiseKind, corrupt
from noisebound.corruption.linear_classifier import linear_probabilities
from noisebound.data import Splits, load
from noisebound.data.folders import written_whole
from noisebound.experiments.columns import Column
from noisebound.training import FitResult, TrainingConfig, fit
from noisebound.training.run_folder import RunFolder

_CHECKPOINT_SECONDS = 30.0
State: TypeAlias = Literal["waiting", "running", "finished", "failed"]


class RunConfig(BaseModel):
    """All that decides a run's result.

    Attributes:
        column: the name of the column, for the reader
        dataset: the name of the data set
        source: the folder's name where the data set is not the published one
        noise: what was put into its labels, or None
        noise_rate: of that noise
        train_examples: how many were drawn from the training set; None for all
        training: the method, its network and its seed, which also decides the noise
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    dataset: str
    source: str | None
    noise: NoiseKind | None
    noise_rate: float
    train_examples: int | None
    training: TrainingConfig

    @property
    def key(self) -> str:
        """The hash that names the run's folder."""
        text = json.dumps(json.loads(self.model_dump_json()), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class DataSources:
    """Where data lies on this machine; results depend on what it is, not on where.

    Args:
        data_dir: where published files are looked for first
        paths: for data sets that are to be taken from elsewhere, such as another split
    """

    data_dir: Path | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)

    def source_of(self, dataset: str) -> str | None:
        """What to call data that is not the published one."""
        path = self.paths.get(dataset)
        return None if path is None else path.resolve().name

    def load(self, dataset: str) -> Splits:
        """The data set."""
        if dataset in self.paths:
            return _load(str(self.paths[dataset]), None)
        return _load(dataset, self.data_dir)


# a worker does many runs on the same data, one after another
_load = lru_cache(maxsize=2)(lambda name, data_dir: load(name, data_dir=data_dir))


def make_run(
    column: Column, training: TrainingConfig, train_examples: int | None, sources: DataSources
) -> RunConfig:
    """A run of a column with a training."""
    return RunConfig(
        column=column.name,
        dataset=column.dataset,
        source=sources.source_of(column.dataset),
        noise=column.noise,
        noise_rate=column.noise_rate,
        train_examples=train_examples,
        training=training,
    )


def noisy_splits(run: RunConfig, sources: DataSources) -> Splits:
    """The data that a run is trained on, and the clean test set.

    Noise comes first, and the draw of examples second: so the linear classifier of the non-uniform
    noise is that of the whole training set, and not one that knows a few examples by heart.
    """
    splits = sources.load(run.dataset)
    train, seed = splits.train, run.training.seed
    if run.noise is not None:
        probs = _linear_probabilities(run.dataset, sources) if run.noise == "classifier" else None
        noisy = corrupt(
            train.labels,
            run.noise,
            run.noise_rate,
            train.num_classes,
            generator=torch.Generator().manual_seed(seed),
            probs=probs,
        )
        train = train.with_labels(noisy.labels)
    if run.train_examples is not None and run.train_examples < len(train):
        train = train.take(run.train_examples, seed)
    return replace(splits, train=train)


_PROBABILITIES: dict[str, Float64[Tensor, "n classes"]] = {}


def _linear_probabilities(dataset: str, sources: DataSources) -> Float64[Tensor, "n classes"]:
    """Of the whole training set, once a process."""
    train = sources.load(dataset).train
    key = f"{dataset} {sources.paths.get(dataset)}"
    if key not in _PROBABILITIES:
        _PROBABILITIES[key] = linear_probabilities(train.inputs, train.labels, train.num_classes)
    return _PROBABILITIES[key]


class RunStore:
    """The folders of runs, each named by the hash of its config."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, run: RunConfig) -> Path:
        """Where a run is, or will be."""
        return self.path / run.key

    def result(self, run: RunConfig) -> FitResult | None:
        """What came of a run, if it is finished."""
        return RunFolder(self.folder(run)).read_result()

    def error(self, run: RunConfig) -> str | None:
        """Why a run failed, if it did."""
        try:
            failure = json.loads((self.folder(run) / "failure.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return str(failure["error"])

    def state(self, run: RunConfig, since: float = 0.0) -> State:
        """How far a run is; it is running if it was begun after ``since`` and has not ended."""
        folder = self.folder(run)
        if (folder / "result.json").exists():
            return "finished"
        if (folder / "failure.json").exists():
            return "failed"
        begun = folder / "run.json"
        return "running" if begun.exists() and begun.stat().st_mtime >= since else "waiting"

    def mark_waiting(self, run: RunConfig) -> None:
        """When nobody does it any more."""
        (self.folder(run) / "run.json").unlink(missing_ok=True)

    def forget_failure(self, run: RunConfig) -> None:
        """Before it is tried again."""
        (self.folder(run) / "failure.json").unlink(missing_ok=True)

    def record_failure(self, run: RunConfig, error: str, trace: str) -> None:
        """Keep why a run failed."""
        with written_whole(self.folder(run) / "failure.json") as part:
            part.write_text(json.dumps({"error": error, "traceback": trace}, indent=2) + "\n")


def execute(run: RunConfig, store: RunStore, sources: DataSources, threads: int | None) -> None:
    """Train, unless it has been done; what fails is recorded, and is tried again when asked for.

    A lock keeps two sweeps from training the same run at once: the second finds it done.
    """
    folder = store.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    if threads is not None:
        torch.set_num_threads(threads)
    with FileLock(folder / ".lock"):
        if store.state(run) == "finished":
            return
        store.forget_failure(run)
        with written_whole(folder / "run.json") as part:
            part.write_text(run.model_dump_json(indent=2) + "\n", encoding="utf-8")
        try:
            fit(
                noisy_splits(run, sources),
                run.training,
                folder,
                resume=True,
                checkpoint_seconds=_CHECKPOINT_SECONDS,
                show=False,
            )
        except Exception as error:
            store.record_failure(run, f"{type(error).__name__}: {error}", traceback.format_exc())
            return
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # a finished run needs none
