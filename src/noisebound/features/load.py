"""Load any source of images or texts as embeddings of a backbone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from PIL import Image
from torch import Tensor

from noisebound.data import Dataset, EmbeddedBy, ReadingOptions, Splits
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
from noisebound.data.image_splits import ImageSplits
from noisebound.data.load import read, read_undecoded
from noisebound.data.rows import in_memory_if_small
from noisebound.errors import FolderTakenError, InvalidValueError
from noisebound.features.backbone import Backbone
from noisebound.features.embed import (
    Log,
    embed_missing,
    embed_once,
    embedding_key,
    finished,
    refuse_bad,
    text_notes,
)
from noisebound.features.examples import (
    Examples,
    ExampleSplits,
    PartName,
    Texts,
    load_raw,
    raw_splits,
)
from noisebound.features.parse import BackboneLike, default_backbone, parse_backbone

_THUMBNAIL = 128  # pixels: enough for a page


def load_for_training(
    source: Any,
    backbone: BackboneLike | None,
    options: ReadingOptions,
    *,
    is_from_pixels: bool = False,
    log: Log = lambda note: None,
) -> tuple[Splits, Backbone | None]:
    """Return a data set as the embeddings of a backbone, and the backbone; or as it was read.

    ``"auto"`` is an encoder for a folder of images, unless the network takes pixels, and for texts;
        for other data there is none.
    """
    if backbone is not None and backbone not in ("none", "auto"):
        encoder = parse_backbone(backbone, options.image_size)
        return load_embedded(source, encoder, options, log=log), encoder
    is_scratch = is_from_pixels or options.image_size is not None
    if backbone != "auto" or is_scratch or isinstance(source, Splits | Dataset):
        return read(source, options), None
    splits = read_undecoded(source, options)
    if isinstance(splits, ImageSplits):
        found = default_backbone("image", log)
        if found is None:
            return splits.decoded(options), None
        return embedded(raw_splits(splits), found, options.skip_bad, log), found
    encoding = splits.encoder
    if encoding is None or not 0 < len(encoding.text_columns) == len(encoding.columns):
        return splits, None  # only texts without columns beside them have a default encoder
    raw = raw_splits(splits)
    texts = raw.examples["train"]
    assert isinstance(texts, Texts)
    found = default_backbone("text", log, texts)
    # TF-IDF takes empty texts, so they are no reason to stop.
    return (splits, None) if found is None else (embedded(raw, found, True, log), found)


def load_embedded(
    source: Any,
    backbone: Backbone,
    options: ReadingOptions | None = None,
    *,
    log: Log = lambda note: None,
) -> ExampleSplits:
    """Return a data set as the embeddings of a backbone, which are made once and cached.

    The other columns of a table stand beside the embeddings of its texts.

    Args:
        source: the same as for `load`
        backbone: the encoder
        options: how to read the data; ``skip_bad`` also leaves out empty texts
        log: called with each log line
    """
    options = options or ReadingOptions()
    return embedded(load_raw(source, options), backbone, options.skip_bad, log)


def embedded(
    raw: ExampleSplits, backbone: Backbone, skip_bad: bool, log: Log = lambda note: None
) -> ExampleSplits:
    """Return a data set as the embeddings of its examples, beside the other columns."""
    found, notes = _embed_parts(
        raw, backbone, skip_bad, lambda name, examples: embed_once(examples, backbone, log)
    )
    parts = {
        name: examples.select(found[name].kept.tolist()) if found[name].bad else examples
        for name, examples in raw.examples.items()
    }

    def part(name: PartName) -> Dataset:
        vectors = in_memory_if_small(found[name].vectors)
        return replace(raw.part(name).subset(found[name].kept), inputs=vectors)

    def rows(frame: pl.DataFrame | None, name: PartName = "train") -> pl.DataFrame | None:
        return None if frame is None else frame[found[name].kept.numpy()]

    train = parts["train"]
    joined = replace(
        raw,
        train=part("train"),
        test=part("test") if "test" in parts else None,
        notes=(*raw.notes, *notes),
        frame=rows(raw.frame),
        test_frame=rows(raw.test_frame, "test"),
        train_names=None if train.names is None else tuple(train.names),
        embedded_by=_made_by(backbone, raw),
        pictures=(lambda place: thumbnail(train, place)) if train.modality == "image" else None,
        table=rows(raw.table),
        examples=parts,
    ).encoded_with(raw.encoder)
    assert isinstance(joined, ExampleSplits)
    return joined


def _embed_parts(
    raw: ExampleSplits,
    backbone: Backbone,
    skip_bad: bool,
    embed: Callable[[PartName, Examples], Embeddings],
) -> tuple[dict[PartName, Embeddings], list[str]]:
    """Return the embeddings of all examples, and notes on unreadable and unsuited ones."""
    found: dict[PartName, Embeddings] = {}
    notes: list[str] = []
    for name, examples in raw.examples.items():
        found[name] = embed(name, examples)
        notes += refuse_bad(examples, found[name], skip_bad)
    train, readable = raw.train, raw.train.labels[found["train"].kept]
    examples = raw.examples["train"]
    check_classes_left(train.labels, readable, train.class_names, examples.noun)
    return found, notes + text_notes(backbone, examples)


def examples_fingerprint(splits: Splits) -> str | None:
    """Return the hash of the examples behind embeddings, if nothing else is among the inputs.

    The embeddings themselves differ by rounding from one machine to another.
    """
    made_by = splits.embedded_by
    if not isinstance(splits, ExampleSplits) or splits.encoder is not None or made_by is None:
        return None
    return None if made_by.fingerprint is None else splits.examples["train"].fingerprint()


def thumbnail(examples: Examples, position: int) -> Tensor:
    """Return a small image, ``[channels, height, width]`` of bytes."""
    image = examples.read(position)
    assert isinstance(image, Image.Image)
    image = image.convert("RGB")
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _made_by(backbone: Backbone, raw: ExampleSplits) -> EmbeddedBy:
    modality, size = raw.examples["train"].modality, backbone.image_size
    return EmbeddedBy(backbone.name, backbone.fingerprint, modality, raw.text_columns, size)


def embed_folder(
    raw: ExampleSplits,
    backbone: Backbone,
    out: Path,
    *,
    skip_bad: bool = False,
    cluster: str | None = None,
    log: Log = lambda note: None,
) -> list[str]:
    """Write the embeddings of a data set to a folder that `fit` reads, and return notes.

    This process embeds into the cache, and copies the result. A Ray ``cluster`` embeds into the
    folder, which all machines must see. Both continue after an interruption. A finished folder is
    not changed.
    """
    if backbone.fingerprint is None:
        raise InvalidValueError(
            "a function has no hash to identify its embeddings by: make it the forward of an "
            "nn.Module"
        )
    backbone.check_modality(raw.examples["train"].modality)
    parts = {
        name: PartRecord(
            key=embedding_key(examples, backbone),
            count=len(examples),
            annotators=raw.part(name).annotators,
            label_names=raw.part(name).label_names,
        )
        for name, examples in raw.examples.items()
    }
    record = EmbeddingsRecord(
        name=raw.name,
        source=raw.source,
        backbone=_made_by(backbone, raw),
        class_names=raw.train.class_names,
        train=parts["train"],
        test=parts.get("test"),
    )
    if out.exists() and not out.is_dir():
        raise FolderTakenError(f"{out} is a file: `out` must be a folder")
    known = read_record(out) if holds_embeddings(out) else record
    if (known.train, known.test) != (record.train, record.test):
        raise FolderTakenError(
            f"{out} holds embeddings of other data, or by another backbone: choose another "
            "folder: `out`"
        )

    def embed(name: PartName, examples: Examples) -> Embeddings:
        path = vectors_path(out.resolve(), name)  # actors on a cluster work elsewhere
        store = EmbeddingStore(path, parts[name].key, len(examples))
        found = finished(store)
        if found is not None:
            return found
        if cluster is None:
            return store.write(embed_once(examples, backbone, log))
        return embed_missing(store, examples, backbone, log, cluster)

    _, notes = _embed_parts(raw, backbone, skip_bad, embed)
    for name, examples in raw.examples.items():
        names = None if examples.names is None else tuple(examples.names)
        write_labels(out, name, raw.part(name), names)
    write_record(out, record)
    if raw.encoder is None:
        return notes
    columns = [column.name for column in raw.encoder.columns]
    beside = ", ".join(name for name in columns if name not in raw.text_columns)
    note = (
        f"the folder holds the embeddings of the texts alone, without the columns {beside}: to use "
        "them, give the table and `backbone` to fit"
    )
    return [note, *notes]
