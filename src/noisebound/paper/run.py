"""A run: one method on one column with one seed. Its config, its data and its folder.

A run is trained once, even if it is interrupted or requested again.
"""

import hashlib
import json
import os
import platform
import shutil
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from filelock import FileLock
from jaxtyping import Float64
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noisebound.catalog import LossName
from noisebound.corruption import NoiseKind, corrupt, linear_probabilities
from noisebound.data import ReadingOptions, Splits, load
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.features import Backbone, load_embedded, parse_backbone
from noisebound.paper.presets import Preset
from noisebound.paper.protocol import Column, Modality
from noisebound.runs import train_run
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult, read_result
from noisebound.system.console import warnings_as_notes
from noisebound.system.files import write_json, write_text
from noisebound.training import TrainingConfig
from noisebound.training.config import Precision
from noisebound.training.devices import keep_freed_memory

State: TypeAlias = Literal["waiting", "finished", "failed"]

_HASH_DIGITS = 16


class RunConfig(BaseModel):
    """Everything that determines the result of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    dataset: str
    source: str | None = None  # the file or folder that replaces the published data set
    noise: NoiseKind | None = None  # added to the labels
    noise_rate: float
    train_examples: int | None = None  # drawn from the training set; by default all
    backbone: str | None = None  # the hash of the backbone whose embeddings are the inputs
    precision: Precision = "32-true"
    training: TrainingConfig  # whose seed also determines the noise

    @cached_property
    def key(self) -> str:
        """The hash that names the run's folder; it ignores fields with default values."""
        text = self.model_dump_json(exclude_defaults=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]

    @property
    def given_rate(self) -> float:
        """The noise rate that the method is given; in a rate sweep, it may be wrong."""
        given = self.training.given_rate
        return self.noise_rate if given is None else given

    @property
    def description(self) -> str:
        training = self.training
        words = f"{self.column} {training.loss} seed {training.seed}"
        if training.bound_offset:
            words += f" offset {training.bound_offset:+g}"
        return words + ("" if self.given_rate == self.noise_rate else f" given {self.given_rate:g}")


@dataclass(frozen=True)
class DataSources:
    """The places of data on this machine; each data set is read once per process."""

    data_dir: Path | None = None  # searched first for published files
    paths: Mapping[str, Path] = field(default_factory=dict)  # replacements of published data sets
    # Pretrained encoders, such as onnx:FILE, to train on the embeddings of. Each kind of examples
    # uses the first that accepts it.
    backbones: tuple[str, ...] = ()

    def source_of(self, dataset: str) -> str | None:
        """Return the name of the file or folder that replaces a published data set, if any."""
        return self.paths[dataset].resolve().name if dataset in self.paths else None

    def load(self, dataset: str, backbone: str | None = None) -> Splits:
        """Return the data set, or its embeddings by the backbone with this hash."""
        if backbone is None:
            return _load(*self.place(dataset))
        for name in self.backbones:
            if _hash(name) == backbone:
                return _load(*self.place(dataset), name)
        raise InvalidValueError(f"no `backbone` here has the hash {backbone}: name its file")

    def backbone_for(self, modality: Modality) -> str | None:
        """Return the hash of the backbone for this kind of examples; None without backbones."""
        return _hash(self.backbone_name(modality)) if self.backbones else None

    def backbone_name(self, modality: Modality) -> str:
        """Return the first backbone that accepts this kind of examples."""
        for name in self.backbones:
            if modality in _backbone(name).modalities:
                return name
        raise InvalidValueError(
            f"no `backbone` takes examples of the kind {modality}: {', '.join(self.backbones)}; "
            "name one more, or choose other `columns`"
        )

    def resolved(self) -> "DataSources":
        """Return the same with absolute paths, for processes in another folder."""
        return replace(
            self,
            data_dir=self.data_dir and self.data_dir.resolve(),
            paths={name: path.resolve() for name, path in self.paths.items()},
            backbones=tuple(_backbone(name).name for name in self.backbones),
        )

    def place(self, dataset: str) -> tuple[str, Path | None]:
        """Return the arguments of `noisebound.data.load` for the data set."""
        path = self.paths.get(dataset)
        return (dataset, self.data_dir) if path is None else (str(path), None)


@lru_cache(maxsize=4)
def _load(name: str, data_dir: Path | None, backbone: str | None = None) -> Splits:
    if backbone is None:
        return load(name, data_dir=data_dir)
    return load_embedded(name, _backbone(backbone), ReadingOptions(data_dir=data_dir))


@lru_cache
def _backbone(name: str) -> Backbone:
    return parse_backbone(name)


@lru_cache
def _hash(backbone: str) -> str:
    marks = _backbone(backbone).fingerprint
    assert marks is not None, "a named encoder has a hash"
    return marks[:_HASH_DIGITS]


@lru_cache(maxsize=1)
def _linear_probabilities(name: str, data_dir: Path | None) -> Float64[Tensor, "n classes"]:
    """Return the predictions, which take minutes for a large data set."""
    train = _load(name, data_dir).train
    return linear_probabilities(train.dense_inputs, train.labels, train.num_classes)


@dataclass(frozen=True)
class Plan:
    """Makes the configs of runs.

    A seed determines the examples, their noise, the initial weights and the order of the examples,
    equally for all methods, so that methods can be compared in pairs.
    """

    preset: Preset
    seeds: tuple[int, ...]
    sources: DataSources

    def runs(self, column: Column, method: str, **changes: float) -> list[RunConfig]:
        """Return one run per seed; ``changes`` are fields of the training config."""
        settings = self.preset.settings_for(column.dataset)
        return [
            RunConfig(
                column=column.name,
                dataset=column.dataset,
                source=self.sources.source_of(column.dataset),
                noise=column.noise,
                noise_rate=column.noise_rate,
                train_examples=settings.train_examples,
                backbone=self.sources.backbone_for(column.modality),
                precision=settings.precision,
                training=self.preset.training(column, method, seed).model_copy(update=changes),
            )
            for seed in self.seeds
        ]

    def offset_runs(self, column: Column, method: str) -> list[RunConfig]:
        """Return the runs at all offsets from the noise-bound; the best offset is B*."""
        bounded = str(LossName.parse(method).bounded)
        grid = (self.runs(column, bounded, bound_offset=each) for each in column.offsets)
        return [run for runs in grid for run in runs]

    def rate_runs(self, column: Column, method: str) -> list[RunConfig]:
        """Return the runs with the true noise rate and with wrong ones."""
        grid = (self.runs(column, method, noise_rate=each) for each in column.swept_rates)
        return [run for runs in grid for run in runs]

    def table_runs(self, columns: Sequence[Column], methods: Sequence[str]) -> list[RunConfig]:
        """Return the runs of all methods, column by column, so that data is loaded once."""
        found: list[RunConfig] = []
        for column, method in product(columns, methods):
            is_searched = LossName.parse(method).is_searched
            found += (self.offset_runs if is_searched else self.runs)(column, method)
        return found


def noisy_splits(run: RunConfig, sources: DataSources) -> Splits:
    """Return the noisy training data of a run, and the clean test set.

    Noise is added before examples are drawn, so that the linear classifier behind non-uniform noise
    is trained on the whole training set. If it memorized a small sample, it would make less noise.
    """
    splits = sources.load(run.dataset, run.backbone)
    train, seed = splits.train, run.training.seed
    if run.noise is not None:
        is_by_classifier = run.noise == "classifier"
        probs = _linear_probabilities(*sources.place(run.dataset)) if is_by_classifier else None
        generator, classes = torch.Generator().manual_seed(seed), train.num_classes
        noisy = corrupt(
            train.labels, run.noise, run.noise_rate, classes, generator=generator, probs=probs
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
        return RunFolder(self.path / run.key)

    def result(self, run: RunConfig) -> RunResult | None:
        """Return the result of a finished run; None if it is missing or damaged."""
        try:
            return read_result(self.folder(run))
        except (DataError, RunError):
            return None

    def error(self, run: RunConfig) -> str | None:
        try:
            return str(json.loads(self.folder(run).failure.read_text(encoding="utf-8"))["error"])
        except FileNotFoundError:
            return None

    def state(self, run: RunConfig) -> State:
        if self.result(run) is not None:
            return "finished"
        return "waiting" if self.error(run) is None else "failed"

    def record_failure(self, run: RunConfig, error: str, trace: str = "") -> None:
        write_json(self.folder(run).failure, {"error": error, "traceback": trace})


def execute(
    run: RunConfig,
    store: RunStore,
    sources: DataSources,
    *,
    threads: int | None = None,
    checkpoint_seconds: float = 30.0,
) -> None:
    """Train a run with this number of threads, unless it is finished.

    A failure is recorded in the run's folder, and the next call tries again. If two sweeps want the
    same run, a lock makes the second wait; it then finds the run finished.
    """
    keep_freed_memory()
    folder = store.folder(run)
    folder.path.mkdir(parents=True, exist_ok=True)
    if threads is not None:
        torch.set_num_threads(threads)
    with FileLock(folder.lock):
        if not folder.experiment.exists():
            write_text(folder.experiment, run.model_dump_json(indent=2) + "\n")
        if store.state(run) == "finished":
            return
        for path in (folder.failure, folder.result):  # an existing result is damaged
            path.unlink(missing_ok=True)
        try:
            with warnings_as_notes(lambda text: f"{run.description}: {text}"):
                _train(run, folder, noisy_splits(run, sources), checkpoint_seconds)
        except Exception as error:
            store.record_failure(run, f"{type(error).__name__}: {error}", traceback.format_exc())


def _train(run: RunConfig, folder: RunFolder, splits: Splits, checkpoint_seconds: float) -> None:
    environment = {  # which may explain differences between runs
        **{name: version(name) for name in ("noisebound", "torch")},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    write_json(folder.environment, environment)
    fabric = None
    if run.precision != "32-true":
        from lightning_fabric import Fabric

        fabric = Fabric(devices=1, precision=run.precision)
    train_run(
        splits,
        run.training,
        folder.path,
        resume=True,
        checkpoint_seconds=checkpoint_seconds,
        show=False,
        fabric=fabric,
    )
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
