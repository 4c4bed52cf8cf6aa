"""Embeddings on disk: shards while they are made, one memory-mapped file when all are there."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from noisebound.errors import DataError
from noisebound.system.files import load_tensors, save_rows, save_tensors

SHARD_ROWS = 2048
"""The examples of a shard: what an interrupted embedding loses at most."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of a sequence of examples.

    Args:
        vectors: one row per example that could be read, mapped from disk
        kept: the position of each of them among all examples
        bad: the position of each example that could not be read, with the reason
    """

    vectors: Float32[Tensor, "kept dimension"]
    kept: Int64[Tensor, " kept"]
    bad: Mapping[int, str]


class EmbeddingStore:
    """The file of some embeddings, and the folder of shards that it is made from.

    Args:
        path: the safetensors file; its shards lie in a folder beside it
        key: what the embeddings are of; those of anything else are not used
        count: the number of examples
        shard_rows: the number of examples per shard
    """

    def __init__(self, path: Path, key: str, count: int, shard_rows: int | None = None) -> None:
        self.path, self.key, self.count = path, key, count
        self.shard_rows = SHARD_ROWS if shard_rows is None else shard_rows
        self.shards = path.with_suffix(".shards")

    def __len__(self) -> int:
        """Return the number of shards."""
        return -(-self.count // self.shard_rows)

    def rows_of(self, shard: int) -> range:
        """Return the positions of the examples of a shard."""
        return range(shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.count))

    def read(self) -> Embeddings | None:
        """Return all embeddings; None if they are not finished, or are of other data.

        Raises:
            DataError: the file is damaged
        """
        return self._read(self.path)

    def read_shard(self, shard: int) -> Embeddings | None:
        """Return one shard; None if it is absent, damaged or of other data."""
        try:
            return self._read(self._shard_path(shard))
        except DataError:
            return None

    def write_shard(self, shard: int, found: Embeddings) -> None:
        """Write a shard, whole or not at all."""
        tensors = {"rows": found.vectors, "rows_kept": found.kept}
        about = self._about(found.bad) | {"shard_rows": self.shard_rows}
        save_tensors(self._shard_path(shard), tensors, about)

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are not there yet."""
        return [shard for shard in range(len(self)) if self.read_shard(shard) is None]

    def finish(self) -> Embeddings:
        """Make one file of all shards, remove them, and return what the file holds."""
        kept: list[Tensor] = []
        bad: dict[int, str] = {}
        lengths: set[int] = set()
        for shard in range(len(self)):
            part = self._shard(shard)
            kept.append(part.kept)
            bad |= part.bad
            if len(part.kept):
                lengths.add(part.vectors.shape[1])
        if len(lengths) > 1:
            raise DataError(f"the shards in {self.shards} have vectors of different lengths")
        kept_rows = torch.cat(kept)
        shape = (len(kept_rows), next(iter(lengths), 0))
        save_rows(self.path, self._parts(), shape, {"rows_kept": kept_rows}, self._about(bad))
        shutil.rmtree(self.shards, ignore_errors=True)
        found = self.read()
        assert found is not None
        return found

    def _parts(self) -> Iterator[Tensor]:
        for shard in range(len(self)):
            part = self._shard(shard)
            if len(part.kept):
                yield part.vectors

    def _shard(self, shard: int) -> Embeddings:
        found = self.read_shard(shard)
        if found is None:
            raise DataError(f"{self._shard_path(shard)} is missing or damaged: embed again")
        return found

    def _shard_path(self, shard: int) -> Path:
        return self.shards / f"{shard:06}.safetensors"

    def _about(self, bad: Mapping[int, str]) -> dict[str, object]:
        return {"key": self.key, "bad": {str(position): reason for position, reason in bad.items()}}

    def _read(self, path: Path) -> Embeddings | None:
        try:
            tensors, about = load_tensors(path)
        except FileNotFoundError:
            return None
        if about.get("key") != self.key or about.get("shard_rows") not in (None, self.shard_rows):
            return None
        bad = {int(position): reason for position, reason in about["bad"].items()}
        return Embeddings(tensors["rows"], tensors["rows_kept"], bad)
