"""Embed examples once: cached on disk by content, shard by shard."""

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import add
from typing import Any

import torch
from filelock import FileLock
from pydantic import ValidationError
from torch import Tensor

from noisebound.data.cache import cache_folder
from noisebound.data.embeddings import Embeddings, EmbeddingStore
from noisebound.data.images import done_ahead, is_of_other_pixel_limit, listed, unreadable_reason
from noisebound.errors import DataError
from noisebound.features.backbone import Backbone, TextCounts
from noisebound.features.examples import Examples, Modality, Texts
from noisebound.system.files import write_text
from noisebound.system.progress import counting

_BATCHES_AHEAD = 4  # prepared while one is embedded
KINDS: Mapping[Modality, str] = {"image": "image", "text": "text", "features": "row"}
"""The name of one example in messages."""


class EmbeddingCacheWarning(UserWarning):
    """A file of cached embeddings is damaged, and is made again."""


class UnsuitedTextWarning(UserWarning):
    """Texts are longer than the limit of their encoder, or in words that it does not know."""


class _Bad(str):
    """The reason why an example cannot be read."""


def embed_once(
    examples: Examples,
    backbone: Backbone,
    log: Callable[[str], None] = lambda note: None,
) -> Embeddings:
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
        log(embedding_plan(examples, backbone) + "; not cached, because a function has no hash")
        with counting("embedding", len(examples)) as advance:
            return embed_rows(examples, range(len(examples)), backbone, advance)
    store = cached_store(examples, backbone)
    store.path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(store.path.with_suffix(".lock")):
        found = read_cache(store)
        if found is not None:
            log(f"the embeddings of {_counted(examples)} are in the cache: {store.path}")
            return found
        fill(store, examples, backbone, log)
        return store.finish()


def cached_store(examples: Examples, backbone: Backbone) -> EmbeddingStore:
    """Return the file in the cache for these examples, whether or not it exists."""
    key = embedding_key(examples, backbone)
    path = cache_folder() / "embeddings" / f"{key[:24]}.safetensors"
    return EmbeddingStore(path, key, len(examples))


def read_cache(store: EmbeddingStore) -> Embeddings | None:
    """Return finished embeddings, unless some must be made again."""
    try:
        return finished(store)
    except DataError as error:
        warnings.warn(f"{error}; embedding again", EmbeddingCacheWarning, stacklevel=3)
        store.path.unlink()
        return None


def finished(store: EmbeddingStore) -> Embeddings | None:
    """Return finished embeddings, unless images were refused under another pixel limit."""
    found = store.read()
    is_stale = found is not None and any(map(is_of_other_pixel_limit, found.bad.values()))
    return None if is_stale else found


def embedding_key(examples: Examples, backbone: Backbone) -> str:
    """Return the hash of these examples and of this backbone."""
    both = f"{examples.modality} {examples.fingerprint()} {backbone.fingerprint}"
    return hashlib.sha256(both.encode()).hexdigest()


def fill(
    store: EmbeddingStore, examples: Examples, backbone: Backbone, log: Callable[[str], None]
) -> None:
    """Embed the shards that the store lacks."""
    missing = store.missing()
    done = store.count - sum(len(store.rows_of(shard)) for shard in missing)
    log(embedding_plan(examples, backbone) + (f"; {done:,} were embedded before" if done else ""))
    with counting("embedding", len(examples), done=done) as advance:
        for shard in missing:
            store.write_shard(shard, embed_rows(examples, store.rows_of(shard), backbone, advance))


def embed_rows(
    examples: Examples,
    positions: Sequence[int],
    backbone: Backbone,
    count: Callable[[int], None] = lambda number: None,
) -> Embeddings:
    """Return the vectors of the examples at these positions.

    ``count`` is called with the size of each finished batch.
    """

    def prepare(position: int) -> Any:
        try:
            return backbone.prepare(examples.read(position))
        except Exception as error:  # Pillow's errors on damaged files are not a closed list
            return _Bad(unreadable_reason(error))

    order = list(positions)
    if isinstance(examples, Texts):  # by length, so that batches need little padding
        order.sort(key=lambda position: len(examples.texts[position] or ""))
    rows: dict[int, Tensor] = {}
    bad: dict[int, str] = {}
    waiting: dict[int, Any] = {}

    def embed_waiting() -> None:
        vectors = backbone.embed(list(waiting.values())) if waiting else ()
        rows.update(zip(waiting, vectors, strict=True))
        count(len(waiting))
        waiting.clear()

    prepared = done_ahead(prepare, order, most=_BATCHES_AHEAD * backbone.batch_size)
    with examples.reading():
        for position, example in zip(order, prepared, strict=True):
            if isinstance(example, _Bad):
                bad[position] = str(example)
                continue
            waiting[position] = example
            if len(waiting) == backbone.batch_size:
                embed_waiting()
        embed_waiting()
    kept = sorted(rows)
    vectors = torch.stack([rows[position] for position in kept]) if kept else torch.empty(0, 0)
    if not bool(torch.isfinite(vectors).all()):
        raise DataError(
            f"the backbone {backbone.name} returns NaN or infinite numbers: its weights are "
            "damaged, or its images are scaled in another way"
        )
    return Embeddings(vectors, torch.tensor(kept, dtype=torch.int64), bad)


def refuse_bad(
    examples: Examples, found: Embeddings, skip_bad: bool | None = None
) -> tuple[str, ...]:
    """Return a note on unreadable examples, or raise an error that lists them.

    Args:
        examples: the examples
        found: their embeddings
        skip_bad: True to leave unreadable ones out (default: the caller has no such option)
    """
    if not found.bad:
        return ()
    kind = f"{KINDS[examples.modality]}s"
    lines = [f"{examples.where(at)} ({reason})" for at, reason in sorted(found.bad.items())]
    if not len(found.kept):
        raise DataError(f"none of the {kind} can be read:\n{listed(lines)}")
    if not skip_bad:
        raise DataError(
            f"{len(lines)} of {len(examples)} {kind} cannot be read:\n{listed(lines)}\n"
            "repair or remove them"
            + ("" if skip_bad is None else ", or leave them out with `skip_bad`")
        )
    return (f"{len(lines)} {kind} that cannot be read were left out:\n{listed(lines)}",)


def text_notes(backbone: Backbone, *parts: tuple[Examples, Tensor]) -> tuple[str, ...]:
    """Return notes on texts that suit their encoder badly.

    The counts are stored beside the cached embeddings, which thus have the same notes.

    Args:
        backbone: the encoder
        parts: examples, and the positions of the readable ones
    """
    counts = [
        _counted_once(examples, kept, backbone)
        for examples, kept in parts
        if isinstance(examples, Texts)
    ]
    known = [each for each in counts if each is not None]
    return reduce(add, known).notes() if known else ()


def _counted_once(examples: Texts, kept: Tensor, backbone: Backbone) -> TextCounts | None:
    path = None
    if backbone.fingerprint is not None:
        path = cached_store(examples, backbone).path.with_suffix(".texts.json")
        with suppress(OSError, ValidationError):
            return TextCounts.model_validate_json(path.read_bytes())
    counts = backbone.count_texts([examples.read(at) for at in kept.tolist()])
    if counts is not None and path is not None:
        write_text(path, counts.model_dump_json())
    return counts


def embedding_plan(examples: Examples, backbone: Backbone) -> str:
    """Return the log line for an embedding that is about to start."""
    how = backbone.describe(examples.modality)
    return f"embedding {_counted(examples)} with {backbone.name}: {how}"


def _counted(examples: Examples) -> str:
    return f"{len(examples):,} {KINDS[examples.modality]}s"
