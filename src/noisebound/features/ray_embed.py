"""Embedding on many machines: Ray Data hands shards to actors that hold the model."""

import logging
from collections.abc import Callable
from typing import Any

from noisebound.data.formats.embeddings import EmbeddingStore
from noisebound.errors import DataError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import embed_rows, embedding_plan
from noisebound.features.examples import Examples
from noisebound.progress import counting
from noisebound.system.ray_cluster import connected, first_line

_ATTEMPTS = 3  # what a dead machine took with it is done again, but not forever


class ShardEmbedder:
    """An actor's work: embed whole shards, and write each where all machines see it.

    Args:
        store: where the shards go
        examples: a list of the reference to what to embed
        backbone: what to embed it with
    """

    def __init__(self, store: EmbeddingStore, examples: list[Any], backbone: Backbone) -> None:
        import ray

        self.store, self.backbone = store, backbone
        self.examples: Examples = ray.get(examples[0])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Embed the shards with these numbers; return how many examples each has."""
        for shard in batch["shard"].tolist():
            rows = self.store.rows_of(shard)
            self.store.write_shard(shard, embed_rows(self.examples, rows, self.backbone))
        return {"rows": [len(self.store.rows_of(shard)) for shard in batch["shard"].tolist()]}


def fill_on_ray(
    store: EmbeddingStore,
    examples: Examples,
    backbone: Backbone,
    cluster: str,
    tell: Callable[[str], None],
) -> None:
    """Embed the shards that the store lacks, on a Ray cluster.

    A shard is a file, written whole: an actor that dies loses the shard that it had under way, and
    another actor does that shard again.

    Args:
        store: where the shards go; a folder that all machines of the cluster see
        examples: what to embed; files lie where all machines see them
        backbone: what to embed it with
        cluster: an address, ``"auto"`` or ``"local"``
        tell: gets a sentence about what is done, for the log
    """
    tell(embedding_plan(examples, backbone))
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
                tell(f"a part of the cluster failed ({reason}); going on with what is left to do")
        missing = store.missing()
        if missing:
            raise DataError(
                f"{len(missing)} of {len(store)} shards could not be embedded in {_ATTEMPTS} "
                "attempts; what is done is kept: look at the cluster, and embed again"
            )


def _pass(
    ray: Any, store: EmbeddingStore, missing: list[int], shared: Any, backbone: Backbone
) -> None:
    """Have every missing shard embedded once."""
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
    with counting("embedding", store.count, done=done) as count:
        for row in embedded.iter_rows():
            count.advance(int(row["rows"]))
