"""``noisebound embed``: a folder of embeddings that `fit` reads, made here or on a Ray cluster."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noisebound.data.embeddings import (
    Embeddings,
    EmbeddingsRecord,
    EmbeddingStore,
    PartRecord,
    holds_embeddings,
    read_record,
    vectors_path,
    write_labels,
    write_record,
)
from noisebound.errors import DataError, FolderTakenError, InvalidValueError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import (
    cached_store,
    embed_rows,
    embedding_key,
    embedding_plan,
    fill,
    finished,
    read_cache,
)
from noisebound.features.examples import Examples
from noisebound.features.load import PartName, RawPart, RawSplits, embed_parts
from noisebound.system.progress import counting
from noisebound.system.ray_cluster import connected, first_line

_ATTEMPTS = 3  # work lost with a machine is repeated, but not forever


def embed_folder(
    raw: RawSplits,
    backbone: Backbone,
    out: Path,
    *,
    skip_bad: bool = False,
    cluster: str | None = None,
    shard_rows: int | None = None,
    log: Callable[[str], None] = lambda note: None,
) -> tuple[str, ...]:
    """Write the embeddings of a data set to a folder, and return notes.

    Embeddings that `fit` has cached are copied. The folder of an interrupted call is continued; a
    finished one is not changed.

    Args:
        raw: the data set
        backbone: the encoder
        out: the folder, which all machines of a cluster must see
        skip_bad: True to leave out unreadable examples
        cluster: address of a Ray cluster, ``"auto"`` for a running one, ``"local"`` to start one;
            by default this process embeds
        shard_rows: number of examples per shard
        log: called with each log line
    """
    if backbone.fingerprint is None:
        raise InvalidValueError(
            "a function has no hash by which its embeddings could be known again: make it the "
            "forward of an nn.Module"
        )
    keys = {}
    for name, part in raw.parts.items():
        backbone.check_modality(part.examples.modality)
        key = embedding_key(part.examples, backbone)
        keys[name] = PartRecord(key=key, count=len(part.examples))
    record = EmbeddingsRecord(
        name=raw.splits.name,
        source=raw.splits.source,
        backbone=backbone.as_maker(raw.train.examples.modality, raw.text_columns),
        class_names=raw.splits.train.class_names,
        train=keys["train"],
        test=keys.get("test"),
    )
    _check_free(out, record)

    folder = out.resolve()  # actors on a cluster work elsewhere

    def embed(name: PartName, part: RawPart) -> Embeddings:
        path, key = vectors_path(folder, name), keys[name].key
        store = EmbeddingStore(path, key, len(part.examples), shard_rows)
        found = finished(store)
        if found is not None:
            return found
        cache = cached_store(part.examples, backbone)
        found = read_cache(cache)
        if found is not None:
            log(f"the embeddings are copied from the cache: {cache.path}")
            return store.write(found)
        if cluster is None:
            fill(store, part.examples, backbone, log)
        else:
            _fill_on_ray(store, part.examples, backbone, cluster, log)
        return store.finish()

    _, notes = embed_parts(raw, backbone, skip_bad, embed)
    for name, part in raw.parts.items():
        write_labels(out, name, part.data.labels, part.data.true_labels, part.names)
    write_record(out, record)
    if raw.splits.encoder is None:
        return notes
    columns = [column.name for column in raw.splits.encoder.columns]
    beside = ", ".join(name for name in columns if name not in raw.text_columns)
    return (
        f"the folder holds the embeddings of the texts alone, without the columns {beside}: to use "
        "them, give the table and `backbone` to fit",
        *notes,
    )


def _check_free(out: Path, record: EmbeddingsRecord) -> None:
    if out.exists() and not out.is_dir():
        raise FolderTakenError(f"{out} is a file: `out` must be a folder")
    if holds_embeddings(out):
        known = read_record(out)
        if (known.train, known.test) != (record.train, record.test):
            raise FolderTakenError(
                f"{out} holds embeddings of other data, or by another backbone: choose another "
                "folder: `out`"
            )


class ShardEmbedder:
    """A Ray actor: embeds whole shards, and writes each where all machines see it.

    It gets the examples as a list of one reference.
    """

    def __init__(self, store: EmbeddingStore, examples: list[Any], backbone: Backbone) -> None:
        import ray

        self.store, self.backbone = store, backbone
        self.examples: Examples = ray.get(examples[0])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Embed the shards with these numbers; return the number of examples in each."""
        shards = [(shard, self.store.rows_of(shard)) for shard in batch["shard"].tolist()]
        for shard, rows in shards:
            self.store.write_shard(shard, embed_rows(self.examples, rows, self.backbone))
        return {"rows": [len(rows) for _, rows in shards]}


def _fill_on_ray(
    store: EmbeddingStore,
    examples: Examples,
    backbone: Backbone,
    cluster: str,
    log: Callable[[str], None],
) -> None:
    """Embed the shards that the store lacks on a Ray cluster.

    Each shard is one file, written atomically: an actor that dies loses its current shard, and
    another actor repeats it. All machines must see the files of the store and of the examples.
    """
    log(embedding_plan(examples, backbone))
    with connected(cluster) as ray:
        shared, attempts = ray.put(examples), 0
        while missing := store.missing():
            if attempts == _ATTEMPTS:
                raise DataError(
                    f"{len(missing)} of {len(store)} shards could not be embedded in {_ATTEMPTS} "
                    "attempts; finished shards are kept: check the cluster, and embed again"
                )
            attempts += 1
            try:
                _pass(ray, store, missing, shared, backbone)
            except ray.exceptions.RayError as error:
                reason = first_line(error)
                log(f"a part of the cluster failed ({reason}); continuing with the rest")


def _pass(
    ray: Any, store: EmbeddingStore, missing: list[int], shared: Any, backbone: Backbone
) -> None:
    """Embed every missing shard once."""
    import ray.data as ray_data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray_data.DataContext.get_current().enable_progress_bars = False
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    actors = max(1, min(len(missing), gpus or int(resources.get("CPU", 1))))
    # Blocks of one shard each, made here: tasks that divide them would wait for the actors' cores.
    rows = [{"shard": shard} for shard in missing]
    shards = ray_data.from_items(rows, override_num_blocks=len(missing))
    embedded = shards.map_batches(
        ShardEmbedder,
        fn_constructor_kwargs={"store": store, "examples": [shared], "backbone": backbone},
        batch_size=1,
        compute=ray_data.ActorPoolStrategy(size=actors),
        num_cpus=0 if gpus else 1,
        num_gpus=1 if gpus else 0,
    )
    done = store.count - sum(len(store.rows_of(shard)) for shard in missing)
    with counting("embedding", store.count, done=done) as advance:
        for row in embedded.iter_rows():
            advance(int(row["rows"]))
