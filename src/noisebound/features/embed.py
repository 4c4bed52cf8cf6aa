"""Embed examples once, shard by shard, here or on a Ray cluster; the cache is by content."""

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import torch
from filelock import FileLock
from torch import Tensor

from noisebound.data.embeddings import Embeddings, EmbeddingStore
from noisebound.data.files import cache_folder
from noisebound.data.images import done_ahead, listed, unreadable_reason
from noisebound.errors import DataError
from noisebound.features.backbone import Backbone
from noisebound.features.examples import Examples, Texts
from noisebound.system.progress import counting
from noisebound.system.ray_cluster import connected, first_line

Log: TypeAlias = Callable[[str], None]

_BATCHES_AHEAD = 4  # prepared while one is embedded


class EmbeddingCacheWarning(UserWarning):
    """A file of cached embeddings is damaged, and is made again."""


class UnsuitedTextWarning(UserWarning):
    """Texts exceed the limit of their encoder, or consist of words that it does not know."""


def embed_once(examples: Examples, backbone: Backbone, log: Log = lambda note: None) -> Embeddings:
    """Return the vectors of all examples, from the cache if they were embedded before.

    An interrupted embedding continues with the next shard. Several processes that ask for the same
    embeddings wait for the one that makes them.

    Args:
        examples: the examples to embed
        backbone: the encoder
        log: called with each log line
    """
    backbone.check_modality(examples.modality)
    if backbone.fingerprint is None:
        log(_plan(examples, backbone) + "; not cached, because a function has no hash")
        with counting("embedding", len(examples)) as advance:
            return _embed(examples, range(len(examples)), backbone, advance)
    key = embedding_key(examples, backbone)
    path = cache_folder() / "embeddings" / f"{key[:24]}.safetensors"
    store = EmbeddingStore(path, key, len(examples))
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        found = finished(store)
        if found is None:
            return embed_missing(store, examples, backbone, log)
        log(f"the embeddings of {examples.counted} are in the cache: {path}")
        return found


def embed_missing(
    store: EmbeddingStore,
    examples: Examples,
    backbone: Backbone,
    log: Log,
    cluster: str | None = None,
) -> Embeddings:
    """Embed the shards that the store lacks, and return all embeddings.

    On a Ray cluster, all machines must see the files of the store and of the examples. Each shard
    is one file, written atomically: an actor that dies loses its current shard, and another actor
    repeats it.
    """
    missing = store.missing()
    done = store.count - sum(len(store.rows_of(shard)) for shard in missing)
    log(_plan(examples, backbone) + (f"; {done:,} were embedded before" if done else ""))
    with counting("embedding", store.count, done=done) as advance:
        if cluster is None:
            for shard in missing:
                rows = _embed(examples, store.rows_of(shard), backbone, advance)
                store.write_shard(shard, rows)
        elif missing:
            _embed_on_ray(cluster, store, missing, examples, backbone, advance)
    return store.finish()


def embedding_key(examples: Examples, backbone: Backbone) -> str:
    """Return the hash of these examples and of this backbone."""
    both = f"{examples.modality} {examples.fingerprint()} {backbone.fingerprint}"
    return hashlib.sha256(both.encode()).hexdigest()


def finished(store: EmbeddingStore) -> Embeddings | None:
    """Return finished embeddings, unless they are damaged."""
    try:
        return store.read()
    except DataError as error:
        warnings.warn(f"{error}; embedding again", EmbeddingCacheWarning, stacklevel=3)
        store.path.unlink()
        return None


def _plan(examples: Examples, backbone: Backbone) -> str:
    how = backbone.describe(examples.modality)
    return f"embedding {examples.counted} with {backbone.name}: {how}"


def _embed(
    examples: Examples,
    positions: Sequence[int],
    backbone: Backbone,
    count: Callable[[int], None] = lambda number: None,
) -> Embeddings:
    """Return the vectors of some examples; ``count`` gets the size of each batch."""

    def prepare(position: int) -> Any:
        try:
            return backbone.prepare(examples.read(position))
        except Exception as error:  # Pillow's errors on damaged files are not a closed list
            return error

    order = list(positions)
    if isinstance(examples, Texts):  # by length, so that batches need little padding
        order.sort(key=lambda position: len(examples.values[position] or ""))
    rows: dict[int, Tensor] = {}
    bad: dict[int, str] = {}

    def readable() -> Iterator[tuple[int, Any]]:
        prepared = done_ahead(prepare, order, most=_BATCHES_AHEAD * backbone.batch_size)
        for position, example in zip(order, prepared, strict=True):
            if isinstance(example, Exception):
                bad[position] = unreadable_reason(example)
            else:
                yield position, example

    waiting = readable()
    while batch := dict(islice(waiting, backbone.batch_size)):
        rows.update(zip(batch, backbone.embed(list(batch.values())), strict=True))
        count(len(batch))
    kept = sorted(rows)
    vectors = torch.stack([rows[position] for position in kept]) if kept else torch.empty(0, 0)
    if not vectors.isfinite().all():
        raise DataError(
            f"the backbone {backbone.name} returns NaN or infinite numbers: its weights are "
            "damaged, or it expects images on another scale"
        )
    return Embeddings(vectors, torch.tensor(kept, dtype=torch.int64), bad)


def refuse_bad(examples: Examples, found: Embeddings, skip_bad: bool | None = None) -> list[str]:
    """Return a note on unreadable examples, or raise an error that lists them.

    ``skip_bad`` is True to leave unreadable ones out, and None if the caller has no such option.
    """
    if not found.bad:
        return []
    lines = [f"{examples.where(at)} ({reason})" for at, reason in sorted(found.bad.items())]
    if not len(found.kept):
        raise DataError(f"none of the {examples.noun}s can be read:\n{listed(lines)}")
    if not skip_bad:
        raise DataError(
            f"{len(lines)} of {examples.counted} cannot be read:\n{listed(lines)}\n"
            "repair or remove them"
            + ("" if skip_bad is None else ", or leave them out with `skip_bad`")
        )
    return [f"{len(lines)} {examples.noun}s that cannot be read were left out:\n{listed(lines)}"]


def text_notes(backbone: Backbone, examples: Examples) -> list[str]:
    """Return notes on texts that suit their encoder badly, by a sample."""
    sample, notes = examples.sample() if isinstance(examples, Texts) else [], []
    cut, unknown = backbone.count_unsuited(sample)
    if cut:
        notes.append(f"{cut} of {len(sample)} texts exceed the limit of the encoder, and were cut")
    if unknown:
        notes.append(
            f"{unknown} of {len(sample)} texts consist mostly of words that the encoder does not "
            "know, as in another language or script: if there are many, choose a multilingual "
            "`backbone`"
        )
    return notes


class ShardEmbedder:
    """A Ray actor that embeds shards, and writes each where all machines see it.

    It gets the examples as a list of one reference.
    """

    def __init__(self, store: EmbeddingStore, examples: list[Any], backbone: Backbone) -> None:
        import ray

        self.store, self.backbone = store, backbone
        self.examples: Examples = ray.get(examples[0])
        backbone.describe(self.examples.modality)  # reads the weights once, not in every thread

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        rows = self.store.rows_of(row["shard"])
        self.store.write_shard(row["shard"], _embed(self.examples, rows, self.backbone))
        return {"rows": len(rows)}


def _embed_on_ray(
    cluster: str,
    store: EmbeddingStore,
    missing: Sequence[int],
    examples: Examples,
    backbone: Backbone,
    advance: Callable[[int], None],
) -> None:
    with connected(cluster) as ray:
        import ray.data as ray_data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray_data.DataContext.get_current().enable_progress_bars = False
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        actors = max(1, min(len(missing), gpus or int(resources.get("CPU", 1))))
        # Blocks of one shard each, made here: tasks that divide them would wait for the actors'
        # cores.
        rows = [{"shard": shard} for shard in missing]
        shards = ray_data.from_items(rows, override_num_blocks=len(missing))
        embedded = shards.map(
            ShardEmbedder,
            fn_constructor_args=(store, [ray.put(examples)], backbone),
            compute=ray_data.ActorPoolStrategy(size=actors),
            num_cpus=0 if gpus else 1,
            num_gpus=1 if gpus else 0,
        )
        try:
            for row in embedded.iter_rows():
                advance(int(row["rows"]))
        except ray.exceptions.RayError as error:
            raise DataError(
                f"the cluster failed ({first_line(error)}); finished shards are kept: check the "
                "cluster, and embed again"
            ) from error
