"""The places of data on this machine; each data set is read once per process."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from filelock import FileLock
from jaxtyping import Float64
from torch import Tensor

from noisebound.corruption import linear_probabilities
from noisebound.data import ReadingOptions, Splits, load
from noisebound.data.cache import cache_folder
from noisebound.errors import DataError, InvalidValueError
from noisebound.features import Backbone, load_embedded, parse_backbone
from noisebound.paper.protocol import Modality
from noisebound.system.files import fingerprint, load_tensors, save_tensors

_HASH_DIGITS = 16  # of the hash of a backbone, in the config of a run


@dataclass(frozen=True)
class DataSources:
    """The places of data on this machine; results depend only on the content.

    Args:
        data_dir: the folder that is searched first for published files
        paths: files or folders that replace published data sets, by the data set's name
        backbones: pretrained encoders to train on the embeddings of, such as ``"onnx:FILE"``; each
            kind of examples uses the first that accepts it
    """

    data_dir: Path | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)
    backbones: tuple[str, ...] = ()

    def source_of(self, dataset: str) -> str | None:
        """Return the name of the file or folder that replaces a published data set, if any."""
        path = self.paths.get(dataset)
        return None if path is None else path.resolve().name

    def load(self, dataset: str, backbone: str | None = None) -> Splits:
        """Return the data set, or its embeddings by the backbone with this hash."""
        for name in (None, *self.backbones):
            if backbone == (None if name is None else _hash(name)):
                return _load(*self._place(dataset), name)
        raise InvalidValueError(f"no `backbone` here has the hash {backbone}: name its file")

    def backbone_for(self, modality: Modality) -> str | None:
        """Return the hash of the backbone for this kind of examples; None without backbones."""
        found = self.backbone_name(modality)
        return None if found is None else _hash(found)

    def backbone_name(self, modality: Modality) -> str | None:
        """Return the first backbone that accepts this kind of examples; None without backbones."""
        if not self.backbones:
            return None
        for name in self.backbones:
            if modality in _backbone(name).modalities:
                return name
        raise InvalidValueError(
            f"no `backbone` takes examples of the kind {modality}: {', '.join(self.backbones)}; "
            "name one more, or choose other `columns`"
        )

    def linear_probabilities(self, dataset: str) -> Float64[Tensor, "n classes"]:
        """Return the predictions of a linear classifier for the whole training set."""
        return _linear_probabilities(*self._place(dataset))

    def fingerprint(self, dataset: str) -> str:
        """Return a hash of all inputs and labels of the data set."""
        splits = self.load(dataset)
        digest = hashlib.sha256()
        for part in (splits.train, splits.test):
            if part is not None:
                for block in part.rows.blocks():
                    digest.update(block.contiguous().numpy().data)
                digest.update(part.labels.numpy().tobytes())
        return digest.hexdigest()

    def resolved(self) -> "DataSources":
        """Return the same with absolute paths, for processes in another folder."""
        data_dir = None if self.data_dir is None else self.data_dir.resolve()
        paths = {name: path.resolve() for name, path in self.paths.items()}
        backbones = tuple(_backbone(name).name for name in self.backbones)
        return replace(self, data_dir=data_dir, paths=paths, backbones=backbones)

    def _place(self, dataset: str) -> tuple[str, Path | None]:
        path = self.paths.get(dataset)
        return (dataset, self.data_dir) if path is None else (str(path), None)


# Cached, because a worker does many runs on the same data.


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
    """Return the predictions; workers share a file, because they take minutes to compute."""
    train = _load(name, data_dir).train
    digest = hashlib.sha256((train.rows.fingerprint() + fingerprint(train.labels)).encode())
    path = cache_folder() / "linear" / f"{digest.hexdigest()[:24]}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        try:
            return load_tensors(path)[0]["probabilities"]
        except (OSError, DataError):  # absent or damaged
            probs = linear_probabilities(train.dense_inputs, train.labels, train.num_classes)
            save_tensors(path, {"probabilities": probs}, {})
            return probs
