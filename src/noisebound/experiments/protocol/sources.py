"""Where the experiments' data comes from, and the noise that is put into it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import torch
from filelock import FileLock
from jaxtyping import Float64
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from noisebound.corruption import corrupt
from noisebound.corruption.linear_classifier import linear_probabilities
from noisebound.data import Splits, load
from noisebound.data.folders import cache_folder
from noisebound.experiments.protocol.run_config import RunConfig
from noisebound.files import fingerprint, written_whole


@dataclass(frozen=True)
class DataSources:
    """Where data is on this machine; results depend on its content alone.

    Args:
        data_dir: where published files are looked for first
        paths: the files or folders of data sets that are not the published ones, by the data set's
            name
    """

    data_dir: Path | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)

    def source_of(self, dataset: str) -> str | None:
        """Return the name of the file or folder of a data set; None for the published one."""
        path = self.paths.get(dataset)
        return None if path is None else path.resolve().name

    def load(self, dataset: str) -> Splits:
        """Return the data set."""
        return _load(*self._place(dataset))

    def linear_probabilities(self, dataset: str) -> Float64[Tensor, "n classes"]:
        """Return the predictions of a linear classifier for the whole training set."""
        return _linear_probabilities(*self._place(dataset))

    def fingerprint(self, dataset: str) -> str:
        """Hash of all inputs and labels of the data set."""
        splits = self.load(dataset)
        digest = hashlib.sha256()
        for part in (splits.train, splits.test):
            if part is not None:
                for block in part.rows.blocks():
                    digest.update(block.contiguous().numpy().data)
                digest.update(part.labels.numpy().tobytes())
        return digest.hexdigest()

    def resolved(self) -> "DataSources":
        """Return the same with absolute paths, for processes that run in another folder."""
        data_dir = None if self.data_dir is None else self.data_dir.resolve()
        paths = {name: path.resolve() for name, path in self.paths.items()}
        return replace(self, data_dir=data_dir, paths=paths)

    def _place(self, dataset: str) -> tuple[str, Path | None]:
        path = self.paths.get(dataset)
        return (dataset, self.data_dir) if path is None else (str(path), None)


# These are cached because a worker does many runs on the same data, one after another.


@lru_cache(maxsize=2)
def _load(name: str, data_dir: Path | None) -> Splits:
    return load(name, data_dir=data_dir)


@lru_cache(maxsize=1)
def _linear_probabilities(name: str, data_dir: Path | None) -> Float64[Tensor, "n classes"]:
    """Return the predictions, computed once per machine: it takes minutes, and workers share it."""
    train = _load(name, data_dir).train
    digest = hashlib.sha256((train.rows.fingerprint() + fingerprint(train.labels)).encode())
    path = cache_folder() / "linear" / f"{digest.hexdigest()[:24]}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        try:
            return load_file(path)["probabilities"]
        except (OSError, SafetensorError):  # absent or damaged
            probs = linear_probabilities(train.dense_inputs, train.labels, train.num_classes)
            with written_whole(path) as part:
                save_file({"probabilities": probs}, part)
            return probs


def noisy_splits(run: RunConfig, sources: DataSources) -> Splits:
    """Return the data that a run is trained on, and the clean test set.

    Noise is put in before examples are drawn. So the linear classifier that makes the non-uniform
    noise is trained on the whole training set; one that has memorized a few examples would make
    less noise.
    """
    splits = sources.load(run.dataset)
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
