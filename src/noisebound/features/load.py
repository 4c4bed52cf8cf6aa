"""Any source of images or texts as embeddings: `load`, with a backbone in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from jaxtyping import Int64
from PIL import Image
from torch import Tensor

from noisebound.data import Dataset, ReadingOptions, Splits, TableEncoder
from noisebound.data.archives import Folder
from noisebound.data.class_folders import ClassTree, find_trees
from noisebound.data.dataset import check_classes_left
from noisebound.data.load import image_folder, read
from noisebound.data.rows import in_memory_if_small
from noisebound.data.text_columns import is_of_empty_texts
from noisebound.errors import DataError, InvalidTypeError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import KINDS, embed_once, refuse_bad, text_notes
from noisebound.features.examples import Examples, ImageFiles, ImageTensor, Rows, Texts

Log = Callable[[str], None]
_ROW_INDEX = "\0row"  # a name that no column of a user has
_THUMBNAIL = 128  # pixels: enough for a page


@dataclass(frozen=True, eq=False)
class RawPart:
    """The training or the test examples before they are embedded.

    Args:
        examples: the examples
        labels: observed class indices
        true_labels: the labels without noise, where they are known
        names: the names of the examples, such as their files; by default their positions
    """

    examples: Examples
    labels: Int64[Tensor, " n"]
    true_labels: Int64[Tensor, " n"] | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class RawSplits:
    """A data set before it is embedded.

    Args:
        name: name of the data set or file
        train: the training examples
        test: the test examples, if there are any
        class_names: the name of each class
        source: the place that the data came from
        notes: sentences on what was changed while reading
        text_columns: the columns of a table that hold the texts
        frame: for texts, the table of the training examples
        test_frame: likewise for the test examples
        encoder: the rule for the columns beside the texts, if there are any
        table: for tables, all columns of the training rows but the labels
        id_column: the column of `table` that names the rows
    """

    name: str
    train: RawPart
    test: RawPart | None
    class_names: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    frame: pl.LazyFrame | None = None
    test_frame: pl.LazyFrame | None = None
    encoder: TableEncoder | None = None
    table: pl.LazyFrame | None = None
    id_column: str | None = None

    @property
    def columns_beside(self) -> tuple[str, ...]:
        """The columns that are used beside the texts."""
        used = () if self.encoder is None else self.encoder.columns
        return tuple(column.name for column in used if column.name not in self.text_columns)


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
    """Return raw examples as the embeddings of a backbone, beside the other columns.

    Args:
        raw: the examples
        backbone: the encoder
        skip_bad: True to leave out unreadable examples
        log: called with each log line
    """
    examples = raw.train.examples
    train, kept, notes = _embedded(raw.train, raw.class_names, backbone, skip_bad, log)
    check_classes_left(raw.train.labels, train.labels, raw.class_names, KINDS[examples.modality])
    parts = [(examples, kept)]
    test, test_kept = None, None
    if raw.test is not None:
        test, test_kept, more = _embedded(raw.test, raw.class_names, backbone, skip_bad, log)
        notes += more
        parts.append((raw.test.examples, test_kept))
    splits = EmbeddedSplits(
        raw.name,
        train,
        test,
        raw.source,
        notes=(*raw.notes, *notes, *text_notes(backbone, *parts)),
        frame=_rows_of(raw.frame, kept),
        test_frame=_rows_of(raw.test_frame, test_kept),
        train_names=_names_of(raw.train, kept),
        embedded_by=backbone.as_maker(examples.modality, raw.text_columns),
        pictures=(
            (lambda place: thumbnail(examples, int(kept[place])))
            if examples.modality == "image"
            else None
        ),
        table=_rows_of(raw.table, kept),
        id_column=raw.id_column,
        raw=raw,
        kept=kept,
        test_kept=test_kept,
    )
    joined = splits.encoded_with(raw.encoder)
    assert isinstance(joined, EmbeddedSplits)
    return joined


def load_raw(source: Any, options: ReadingOptions | None = None) -> RawSplits:
    """Return the raw examples of a data set; the pixels of image files are not read."""
    options = options or ReadingOptions()
    folder = image_folder(source)
    if folder is not None:
        options.refuse_all_but("image_size", "skip_bad", "data_dir", what="a folder of images")
        return _image_folder(folder)
    splits = read(source, options)
    if splits.embedded_by is not None:
        raise DataError(
            f"{splits.source} holds embeddings already, by {splits.embedded_by.name}: leave "
            "`backbone` out"
        )
    encoder = splits.encoder
    columns = () if encoder is None else encoder.text_columns

    def part(
        name: Literal["train", "test"], data: Dataset, names: tuple[str, ...] | None
    ) -> RawPart:
        texts = splits.texts(name) or []
        examples = Texts(texts, names) if columns else examples_of(data.dense_inputs)
        return RawPart(examples, data.labels, data.true_labels, names)

    has_others = encoder is not None and 0 < len(columns) < len(encoder.columns)
    return RawSplits(
        splits.name,
        part("train", splits.train, splits.train_names),
        None if splits.test is None else part("test", splits.test, None),
        splits.train.class_names,
        splits.source,
        tuple(note for note in splits.notes if not is_of_empty_texts(note)),
        columns,
        splits.frame if columns else None,
        splits.test_frame if columns else None,
        encoder.beside_texts() if encoder is not None and has_others else None,
        splits.table,
        splits.id_column,
    )


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


def _embedded(
    part: RawPart, class_names: tuple[str, ...], backbone: Backbone, skip_bad: bool, log: Log
) -> tuple[Dataset, Tensor, tuple[str, ...]]:
    found = embed_once(part.examples, backbone, log)
    notes = refuse_bad(part.examples, found, skip_bad)
    true_labels = None if part.true_labels is None else part.true_labels[found.kept]
    data = Dataset(
        in_memory_if_small(found.vectors), part.labels[found.kept], class_names, true_labels
    )
    return data, found.kept, notes


def _names_of(part: RawPart, kept: Tensor) -> tuple[str, ...] | None:
    """Return the names of the readable examples; None if all positions are unchanged."""
    if part.names is None and len(kept) == len(part.labels):
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
        return RawPart(ImageFiles(tree.files, tree.names), tree.labels, names=tree.names)

    source, test_part = str(folder.path), None if test is None else part(test)
    return RawSplits(folder.path.name, part(train), test_part, train.class_names, source, notes)
