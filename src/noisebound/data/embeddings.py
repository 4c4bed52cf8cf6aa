"""Embeddings on disk: shards while they are made, then one file, in a folder with labels."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from jaxtyping import Float32, Int64
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from noisebound.data.dataset import Dataset
from noisebound.data.files import as_data_error
from noisebound.data.rows import in_memory_if_small
from noisebound.data.splits import EmbeddedBy, Splits
from noisebound.errors import DataError
from noisebound.system.files import load_tensors, save_rows, save_tensors, write_text, written_whole

SHARD_ROWS = 2048
"""Examples per shard. An interrupted embedding loses at most one shard."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of a sequence of examples, mapped from disk."""

    vectors: Float32[Tensor, "kept dimension"]
    kept: Int64[Tensor, " kept"]  # the positions of the examples that could be read
    bad: Mapping[int, str]  # why the others could not be read, by position


class EmbeddingStore:
    """The safetensors file of some embeddings, and the folder of shards that it is made from.

    The key is a hash of the examples and the backbone. Files with another key are not used.
    """

    def __init__(self, path: Path, key: str, count: int, shard_rows: int | None = None) -> None:
        self.path, self.key, self.count = path, key, count
        self.shard_rows = shard_rows or SHARD_ROWS
        self.shards = path.with_suffix(".shards")

    def __len__(self) -> int:
        return -(-self.count // self.shard_rows)

    def rows_of(self, shard: int) -> range:
        return range(shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.count))

    def read(self) -> Embeddings | None:
        """Return all embeddings, or None if they are unfinished, or of other data."""
        return self._read(self.path)

    def read_shard(self, shard: int) -> Embeddings | None:
        """Return one shard, or None if it is absent, damaged or of other data."""
        try:
            return self._read(self._shard_path(shard))
        except DataError:
            return None

    def write_shard(self, shard: int, found: Embeddings) -> None:
        tensors = {"rows": found.vectors, "rows_kept": found.kept}
        about = self._about(found.bad) | {"shard_rows": self.shard_rows}
        save_tensors(self._shard_path(shard), tensors, about)

    def missing(self) -> list[int]:
        return [shard for shard in range(len(self)) if self.read_shard(shard) is None]

    def finish(self) -> Embeddings:
        """Make one file of all shards, remove them, and return its embeddings."""
        parts = [self.read_shard(shard) for shard in range(len(self))]
        if None in parts:
            path = self._shard_path(parts.index(None))
            raise DataError(f"{path} is missing or damaged: embed again")
        return self.write(*(part for part in parts if part is not None))

    def write(self, *parts: Embeddings) -> Embeddings:
        """Write all embeddings as one finished file, remove shards, and return its content."""
        vectors = [part.vectors for part in parts if len(part.kept)]
        if len({each.shape[1] for each in vectors}) > 1:
            raise DataError(f"the shards in {self.shards} have vectors of different lengths")
        kept = torch.cat([part.kept for part in parts])
        bad = {place: reason for part in parts for place, reason in part.bad.items()}
        shape = (len(kept), vectors[0].shape[1] if vectors else 0)
        save_rows(self.path, vectors, shape, {"rows_kept": kept}, self._about(bad))
        shutil.rmtree(self.shards, ignore_errors=True)
        found = self.read()
        assert found is not None
        return found

    def _shard_path(self, shard: int) -> Path:
        return self.shards / f"{shard:06}.safetensors"

    def _about(self, bad: Mapping[int, str]) -> dict[str, object]:
        return {"key": self.key, "bad": {str(place): reason for place, reason in bad.items()}}

    def _read(self, path: Path) -> Embeddings | None:
        try:
            tensors, about = load_tensors(path)
        except FileNotFoundError:
            return None
        if about.get("key") != self.key or about.get("shard_rows") not in (None, self.shard_rows):
            return None
        bad = {int(position): reason for position, reason in about["bad"].items()}
        return Embeddings(tensors["rows"], tensors["rows_kept"], bad)


_RECORD = "embeddings.json"


class PartRecord(BaseModel):
    """Training or test examples: their hash with the backbone's, and their number."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: str
    count: int
    annotators: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()


class EmbeddingsRecord(BaseModel):
    """The content of a folder of embeddings; it is written last, when all other files exist."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int = 1
    name: str
    source: str
    backbone: EmbeddedBy
    class_names: tuple[str, ...]
    train: PartRecord
    test: PartRecord | None = None


def holds_embeddings(path: Path) -> bool:
    """True if this is a folder that ``noisebound embed`` has finished."""
    return (path / _RECORD).is_file()


def vectors_path(folder: Path, part: str) -> Path:
    """Return the file with the vectors of ``"train"`` or ``"test"``."""
    return folder / f"{part}.safetensors"


def write_labels(folder: Path, part: str, data: Dataset, names: tuple[str, ...] | None) -> None:
    """Write a table of the examples: their names, labels, votes and groups, one row each."""
    known = {
        "label": data.labels,
        "true_label": data.true_labels,
        "group": data.groups,
        "votes": data.votes,
        "label_matrix": data.label_matrix,
    }
    columns = {name: each.tolist() for name, each in known.items() if each is not None}
    examples = names or [str(place) for place in range(len(data))]
    frame = pl.DataFrame({"example": examples, **columns})
    with written_whole(folder / f"{part}.parquet") as path:
        frame.write_parquet(path)


def write_record(folder: Path, record: EmbeddingsRecord) -> None:
    """Write the record; only with it is the folder a data source."""
    write_text(folder / _RECORD, record.model_dump_json(indent=2) + "\n")


def read_record(folder: Path) -> EmbeddingsRecord:
    """Return the record, or an error that names its file."""
    path = folder / _RECORD
    try:
        return EmbeddingsRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: embed again into another folder") from error


def read_embeddings(folder: Path) -> Splits:
    """Return the data set in a folder of embeddings; many vectors stay mapped."""
    record = read_record(folder)
    train, names = _part(folder, "train", record.train, record.class_names)
    test = None
    if record.test is not None:
        test, _ = _part(folder, "test", record.test, record.class_names)
    return Splits(
        record.name, train, test, str(folder), train_names=names, embedded_by=record.backbone
    )


def _part(
    folder: Path, name: str, about: PartRecord, class_names: tuple[str, ...]
) -> tuple[Dataset, tuple[str, ...]]:
    path = vectors_path(folder, name)
    found = EmbeddingStore(path, about.key, about.count).read()
    if found is None:
        raise DataError(f"{path} is missing, or is of other data than {folder / _RECORD} says")
    table = folder / f"{name}.parquet"
    with as_data_error(table, remedy="embed again into another folder"):
        frame = pl.read_parquet(table)[found.kept.numpy()]
        columns: dict[str, Any] = {
            f"{column}s": torch.from_numpy(frame[column].to_numpy().copy()).long()
            for column in ("label", "true_label", "group")
            if column == "label" or column in frame
        }
        if "votes" in frame:
            columns["votes"] = torch.tensor(frame["votes"].to_list())
            columns["annotators"] = about.annotators
        if "label_matrix" in frame:
            columns["label_matrix"] = torch.tensor(frame["label_matrix"].to_list())
            columns["label_names"] = about.label_names
        names, vectors = tuple(frame["example"].to_list()), in_memory_if_small(found.vectors)
        return Dataset(vectors, class_names=class_names, **columns), names
