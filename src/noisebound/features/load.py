"""Any source of images or texts as embeddings: `load`, with a backbone in between."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from jaxtyping import Int64
from PIL import Image
from torch import Tensor

from noisebound.data import Dataset, ReadingOptions, Splits
from noisebound.data.archives import Folder
from noisebound.data.class_folders import ClassTree, find_trees
from noisebound.data.dataset import check_classes_left
from noisebound.data.embeddings import Embeddings
from noisebound.data.load import image_folder, read
from noisebound.data.rows import in_memory_if_small
from noisebound.data.text_columns import is_of_empty_texts
from noisebound.errors import DataError, InvalidTypeError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import KINDS, embed_once, refuse_bad, text_notes
from noisebound.features.examples import Examples, ImageFiles, ImageTensor, Rows, Texts

Log = Callable[[str], None]
PartName = Literal["train", "test"]
_ROW_INDEX = "\0row"  # a name that no column of a user has
_THUMBNAIL = 128  # pixels: enough for a page


@dataclass(frozen=True, eq=False)
class RawPart:
    """The training or the test examples before they are embedded.

    Args:
        examples: the examples
        data: their labels; its inputs are not used
        names: the names of the examples, such as their files; by default their positions
    """

    examples: Examples
    data: Dataset
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class RawSplits:
    """A data set before it is embedded.

    Args:
        splits: the origin of the data, its classes, and the columns beside its texts
        train: the training examples
        test: the test examples, if there are any
        text_columns: the columns of a table that hold the texts
    """

    splits: Splits
    train: RawPart
    test: RawPart | None
    text_columns: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[PartName, RawPart]:
        """All examples by part."""
        found: dict[PartName, RawPart] = {"train": self.train}
        return found if self.test is None else {**found, "test": self.test}


@dataclass(frozen=True, eq=False)
class EmbeddedSplits(Splits):
    """A data set as embeddings, with the examples behind them.

    Args:
        raw: the data set before it was embedded
        kept: the positions of the readable training examples
        test_kept: likewise for the test examples, if there are any
    """

    raw: RawSplits = field(kw_only=True)
    kept: Int64[Tensor, " n"] = field(kw_only=True)
    test_kept: Int64[Tensor, " m"] | None = field(kw_only=True)


def load_embedded(
    source: Any,
    backbone: Backbone,
    options: ReadingOptions | None = None,
    *,
    log: Log = lambda note: None,
) -> EmbeddedSplits:
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
    raw: RawSplits, backbone: Backbone, skip_bad: bool, log: Log = lambda note: None
) -> EmbeddedSplits:
    """Return raw examples as the embeddings of a backbone, beside the other columns."""
    found, notes = embed_parts(
        raw, backbone, skip_bad, lambda name, part: embed_once(part.examples, backbone, log)
    )
    data = {
        name: Dataset(
            in_memory_if_small(found[name].vectors),
            part.data.labels[found[name].kept],
            part.data.class_names,
            None if part.data.true_labels is None else part.data.true_labels[found[name].kept],
        )
        for name, part in raw.parts.items()
    }
    before, examples, kept = raw.splits, raw.train.examples, found["train"].kept
    test_kept = found["test"].kept if "test" in found else None
    is_images = examples.modality == "image"
    splits = EmbeddedSplits(
        before.name,
        data["train"],
        data.get("test"),
        before.source,
        notes=(*before.notes, *notes),
        frame=_rows_of(before.frame, kept),
        test_frame=_rows_of(before.test_frame, test_kept),
        train_names=_names_of(raw.train, kept),
        embedded_by=backbone.as_maker(examples.modality, raw.text_columns),
        pictures=(lambda place: thumbnail(examples, int(kept[place]))) if is_images else None,
        table=_rows_of(before.table, kept),
        id_column=before.id_column,
        raw=raw,
        kept=kept,
        test_kept=test_kept,
    )
    joined = splits.encoded_with(before.encoder)
    assert isinstance(joined, EmbeddedSplits)
    return joined


def examples_fingerprint(splits: Splits) -> str | None:
    """Return the hash of the examples behind embeddings, if nothing else is among the inputs.

    The embeddings themselves differ by rounding from one machine to another.
    """
    if not isinstance(splits, EmbeddedSplits) or splits.raw.splits.encoder is not None:
        return None
    is_known = splits.embedded_by is not None and splits.embedded_by.fingerprint is not None
    return splits.raw.train.examples.fingerprint() if is_known else None


def embed_parts(
    raw: RawSplits,
    backbone: Backbone,
    skip_bad: bool,
    embed: Callable[[PartName, RawPart], Embeddings],
) -> tuple[dict[PartName, Embeddings], tuple[str, ...]]:
    """Return the embeddings of all examples, and notes on unreadable and unsuited ones."""
    found: dict[PartName, Embeddings] = {}
    notes: list[str] = []
    for name, part in raw.parts.items():
        found[name] = embed(name, part)
        notes += refuse_bad(part.examples, found[name], skip_bad)
        if name == "train":
            labels, kind = part.data.labels, KINDS[part.examples.modality]
            check_classes_left(labels, labels[found[name].kept], part.data.class_names, kind)
    readable = [(part.examples, found[name].kept) for name, part in raw.parts.items()]
    return found, (*notes, *text_notes(backbone, *readable))


def load_raw(source: Any, options: ReadingOptions | None = None) -> RawSplits:
    """Return the raw examples of a data set; the pixels of image files are not read."""
    options = options or ReadingOptions()
    folder = image_folder(source)
    if folder is not None:
        options.refuse_all_but("image_size", "skip_bad", "data_dir", what="a folder of images")
        return _image_folder(folder)
    return raw_splits(read(source, options))


def raw_splits(splits: Splits) -> RawSplits:
    """Return the raw examples of a data set that was read and not encoded."""
    if splits.embedded_by is not None:
        raise DataError(
            f"{splits.source} holds embeddings already, by {splits.embedded_by.name}: leave "
            "`backbone` out"
        )
    encoder = splits.encoder
    columns = () if encoder is None else encoder.text_columns

    def part(name: PartName, data: Dataset, names: tuple[str, ...] | None = None) -> RawPart:
        texts = splits.texts(name) or []
        examples = Texts(texts, names) if columns else examples_of(data.dense_inputs)
        return RawPart(examples, data, names)

    has_others = encoder is not None and 0 < len(columns) < len(encoder.columns)
    described = replace(
        splits,
        notes=tuple(note for note in splits.notes if not is_of_empty_texts(note)),
        encoder=encoder.beside_texts() if encoder is not None and has_others else None,
        frame=splits.frame if columns else None,
        test_frame=splits.test_frame if columns else None,
    )
    train = part("train", splits.train, splits.train_names)
    test = None if splits.test is None else part("test", splits.test)
    return RawSplits(described, train, test, columns)


def examples_of(inputs: Tensor) -> Examples:
    """Return the examples of a tensor: images, or rows of features."""
    return ImageTensor(inputs) if inputs.ndim == 4 else Rows(inputs)


def thumbnail(examples: Examples, position: int) -> Tensor:
    """Return a small image, ``[channels, height, width]`` of bytes."""
    with examples.reading():
        image = examples.read(position)
    if not isinstance(image, Image.Image):
        raise InvalidTypeError("these examples are not images")
    image = image.convert("RGB")
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _names_of(part: RawPart, kept: Tensor) -> tuple[str, ...] | None:
    """Return the names of the readable examples, if they have any or positions change."""
    if part.names is None and len(kept) == len(part.examples):
        return None
    return tuple(str(place) if part.names is None else part.names[place] for place in kept.tolist())


def _rows_of(frame: pl.LazyFrame | None, kept: Tensor | None) -> pl.LazyFrame | None:
    if frame is None or kept is None:
        return None
    rows = pl.Series(kept.tolist(), dtype=pl.UInt32)
    is_kept = pl.col(_ROW_INDEX).is_in(rows.implode())
    return frame.with_row_index(_ROW_INDEX).filter(is_kept).drop(_ROW_INDEX)


def _image_folder(folder: Folder) -> RawSplits:
    train, test, notes = find_trees(folder)

    def part(tree: ClassTree) -> RawPart:
        data = Dataset(torch.empty(len(tree.names), 0), tree.labels, train.class_names)
        return RawPart(ImageFiles(tree.files, tree.names), data, tree.names)

    raw, raw_test = part(train), None if test is None else part(test)
    splits = Splits(folder.path.name, raw.data, None, str(folder.path), notes)
    return RawSplits(splits, raw, raw_test)
