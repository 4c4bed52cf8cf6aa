"""``noisebound embed``: a folder of embeddings that `fit` reads, made here or on a Ray cluster."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from noisebound.data.dataset import check_classes_left
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
    KINDS,
    cached_store,
    embed_rows,
    embedding_key,
    embedding_plan,
    fill,
    finished,
    read_cache,
    refuse_bad,
    text_notes,
)
from noisebound.features.examples import Examples
from noisebound.features.load import RawPart, RawSplits
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
    parts = {"train": raw.train} | ({} if raw.test is None else {"test": raw.test})
    for part in parts.values():
        backbone.check_modality(part.examples.modality)
    records = {
        name: PartRecord(key=embedding_key(part.examples, backbone), count=len(part.examples))
        for name, part in parts.items()
    }
    record = EmbeddingsRecord(
        name=raw.name,
        source=raw.source,
        backbone=backbone.as_maker(raw.train.examples.modality, raw.text_columns),
        class_names=raw.class_names,
        train=records["train"],
        test=records.get("test"),
    )
    _check_free(out, record)
    notes: list[str] = []
    if raw.columns_beside:
        notes.append(
            "the folder holds the embeddings of the texts alone, without the columns "
            f"{', '.join(raw.columns_beside)}: to use them, give the table and `backbone` to fit"
        )
    embedded: list[tuple[Examples, Tensor]] = []
    for name, part in parts.items():
        store = EmbeddingStore(
            vectors_path(out, name), records[name].key, records[name].count, shard_rows
        )
        found = finished(store) or _made(store, part, backbone, cluster, log)
        notes += refuse_bad(part.examples, found, skip_bad)
        embedded.append((part.examples, found.kept))
        if part is raw.train:
            kind = KINDS[part.examples.modality]
            check_classes_left(part.labels, part.labels[found.kept], raw.class_names, kind)
        write_labels(out, name, part.labels, part.true_labels, part.names)
    write_record(out, record)
    return (*notes, *text_notes(backbone, *embedded))


def _made(
    store: EmbeddingStore,
    part: RawPart,
    backbone: Backbone,
    cluster: str | None,
    log: Callable[[str], None],
) -> Embeddings:
    cache = cached_store(part.examples, backbone)
    known = read_cache(cache)
    if known is not None:
        log(f"the embeddings are copied from the cache: {cache.path}")
        return store.write(known)
    if cluster is None:
        fill(store, part.examples, backbone, log)
    else:
        _fill_on_ray(store, part.examples, backbone, cluster, log)
    return store.finish()


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

    Args:
        store: the place of the shards
        examples: a list of one reference to the examples
        backbone: the encoder
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
    store.path = store.path.resolve()
    store.shards = store.shards.resolve()
    with connected(cluster) as ray:
        shared = ray.put(examples)
        for _ in range(_ATTEMPTS):
            missing = store.missing()
            if not missing:
                return
            try:
                _pass(ray, store, missing, shared, backbone)
            except ray.exceptions.RayError as error:
                reason = first_line(error)
                log(f"a part of the cluster failed ({reason}); continuing with the rest")
        missing = store.missing()
        if missing:
            raise DataError(
                f"{len(missing)} of {len(store)} shards could not be embedded in {_ATTEMPTS} "
                "attempts; finished shards are kept: check the cluster, and embed again"
            )


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
