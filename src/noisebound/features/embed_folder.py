"""``noisebound embed``: the embeddings of a data set in a folder that ``fit`` reads."""

from collections.abc import Callable
from pathlib import Path

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
from noisebound.errors import FolderTakenError, InvalidValueError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import (
    KINDS,
    embedding_key,
    fill,
    refuse_bad,
    reopened,
    text_notes,
)
from noisebound.features.examples import Examples
from noisebound.features.load import RawPart, RawSplits
from noisebound.features.ray_embed import fill_on_ray


def embed_folder(
    raw: RawSplits,
    backbone: Backbone,
    out: Path,
    *,
    skip_bad: bool = False,
    cluster: str | None = None,
    shard_rows: int | None = None,
    tell: Callable[[str], None] = lambda note: None,
) -> tuple[str, ...]:
    """Write the embeddings of a data set to a folder, and return notes on what was left out.

    A folder that an interrupted call has left is continued; a finished one is left as it is.

    Args:
        raw: the data set
        backbone: what to embed it with
        out: the folder; a cluster's machines must all see it
        skip_bad: True to leave out examples that cannot be read
        cluster: the address of a Ray cluster, ``"auto"`` for the one that is running here,
            ``"local"`` to start one; None for this process
        shard_rows: the number of examples per shard
        tell: gets a sentence about what is done, for the log
    """
    if backbone.fingerprint is None:
        raise InvalidValueError(
            "a function has no hash by which its embeddings could be known again: make it the "
            "forward of an nn.Module"
        )
    parts = {"train": raw.train} | ({} if raw.test is None else {"test": raw.test})
    for part in parts.values():
        backbone.check_modality(part.examples.modality)
    records = {name: _record(part, backbone) for name, part in parts.items()}
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
        found = store.read()
        if found is None or reopened(store, found):
            found = _made(store, part, backbone, cluster, tell)
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
    tell: Callable[[str], None],
) -> Embeddings:
    if cluster is None:
        fill(store, part.examples, backbone, tell)
    else:
        fill_on_ray(store, part.examples, backbone, cluster, tell)
    return store.finish()


def _record(part: RawPart, backbone: Backbone) -> PartRecord:
    return PartRecord(key=embedding_key(part.examples, backbone), count=len(part.examples))


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
