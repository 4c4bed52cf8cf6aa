"""Any source of images or texts as embeddings: `load`, with a backbone in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Int64
from PIL import Image
from torch import Tensor

from noisebound.data import Dataset, ReadingOptions, Splits, TableEncoder
from noisebound.data.dataset import check_classes_left
from noisebound.data.load import holds_images, load_with
from noisebound.data.registry import find_published
from noisebound.data.rows import held
from noisebound.data.text_features import is_of_empty_texts
from noisebound.data.user.image_folder import ImageTree, find_trees
from noisebound.errors import DataError, InvalidTypeError
from noisebound.features.backbone import Backbone
from noisebound.features.embed_once import KINDS, embed_once, refuse_bad, text_notes
from noisebound.features.examples import Examples, ImageFiles, ImageTensor, Rows, Texts

Tell = Callable[[str], None]
_ROW_INDEX = "\0row"  # no column of a user's is called so
_THUMBNAIL = 128  # pixels: enough for a page


@dataclass(frozen=True, eq=False)
class RawPart:
    """The training or the test examples before they are embedded.

    Args:
        examples: the examples
        labels: observed class indices
        true_labels: the labels without noise, where they are known
        names: the names of the examples, such as their files; None if they are known by position
    """

    examples: Examples
    labels: Int64[Tensor, " n"]
    true_labels: Int64[Tensor, " n"] | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class RawSplits:
    """A data set before it is embedded.

    Args:
        name: the data set's name, or the file's
        train: the examples to train on
        test: the examples to evaluate on; None if the data set has none
        class_names: the name of each class
        source: the place that the data came from
        notes: what was done to the data while reading it, a sentence each
        text_columns: the columns of a table that hold the texts
        frame: the table of the training examples, where they are texts
        test_frame: likewise of the test examples
        encoder: what turns the columns beside the texts into features; None if there are none
        table: all columns of the training rows but the labels, where the data is a table
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
    """A data set as embeddings, which knows the examples behind them.

    Args:
        raw: the data set before it was embedded
        kept: the positions of the training examples that could be read
        test_kept: likewise of the test examples; None if there are none
    """

    raw: RawSplits = field(kw_only=True)
    kept: Int64[Tensor, " n"] = field(kw_only=True)
    test_kept: Int64[Tensor, " m"] | None = field(kw_only=True)


def load_embedded(
    source: Any,
    backbone: Backbone,
    options: ReadingOptions | None = None,
    *,
    tell: Tell = lambda note: None,
) -> EmbeddedSplits:
    """Return a data set as the embeddings of a backbone, which are made once and cached.

    The other columns of a table stand beside the embeddings of its texts.

    Args:
        source: what `load` takes
        backbone: the encoder
        options: how to read the data; ``skip_bad`` also leaves out texts that are empty
        tell: gets a sentence about what is done, for the log
    """
    options = options or ReadingOptions()
    return embedded(load_raw(source, options), backbone, options.skip_bad, tell)


def embedded(
    raw: RawSplits, backbone: Backbone, skip_bad: bool, tell: Tell = lambda note: None
) -> EmbeddedSplits:
    """Return raw examples as the embeddings of a backbone, beside the other columns.

    Args:
        raw: the examples
        backbone: the encoder
        skip_bad: True to leave out examples that cannot be read
        tell: gets a sentence about what is done, for the log
    """
    train, kept, notes = _embedded(raw.train, raw.class_names, backbone, skip_bad, tell)
    check_classes_left(
        raw.train.labels, train.labels, raw.class_names, KINDS[raw.train.examples.modality]
    )
    test, test_kept = None, None
    if raw.test is not None:
        test, test_kept, more = _embedded(raw.test, raw.class_names, backbone, skip_bad, tell)
        notes += more
    parts = [(raw.train.examples, kept)]
    if raw.test is not None and test_kept is not None:
        parts.append((raw.test.examples, test_kept))
    examples = raw.train.examples
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
    beside = splits.encoded_with(raw.encoder)
    assert isinstance(beside, EmbeddedSplits)
    return beside


def load_raw(source: Any, options: ReadingOptions | None = None) -> RawSplits:
    """Return a data set's raw examples; of a folder of images, no pixel is read."""
    options = options or ReadingOptions()
    if is_image_folder(source):
        options.refuse_all_but("image_size", "skip_bad", "data_dir", what="a folder of images")
        return _folder(Path(source))
    splits = load_with(source, options, leave_texts=True)
    if splits.embedded_by is not None:
        raise DataError(
            f"{splits.source} holds embeddings already, by {splits.embedded_by.name}: leave "
            "`backbone` out"
        )
    if splits.encoder is not None and splits.encoder.text_columns:
        return _texts_of_table(splits)
    test = None if splits.test is None else _raw_part(splits.test)
    train = _raw_part(splits.train, splits.train_names)
    return RawSplits(
        *(splits.name, train, test, splits.train.class_names, splits.source, splits.notes),
        table=splits.table,
        id_column=splits.id_column,
    )


def _texts_of_table(splits: Splits) -> RawSplits:
    """Return the texts of a table, with the table itself for its other columns."""
    encoder = splits.encoder
    assert encoder is not None
    has_others = len(encoder.columns) > len(encoder.text_columns)
    train = RawPart(
        Texts(splits.texts() or [], splits.train_names),
        splits.train.labels,
        splits.train.true_labels,
        splits.train_names,
    )
    test = None
    if splits.test is not None:
        test = RawPart(Texts(splits.texts("test") or []), splits.test.labels)
    return RawSplits(
        splits.name,
        train,
        test,
        splits.train.class_names,
        splits.source,
        tuple(note for note in splits.notes if not is_of_empty_texts(note)),
        encoder.text_columns,
        splits.frame,
        splits.test_frame,
        encoder.beside_texts() if has_others else None,
        splits.table,
        splits.id_column,
    )


def examples_of(inputs: Tensor) -> Examples:
    """Return the examples of a tensor: images, or rows of features."""
    return ImageTensor(inputs) if inputs.ndim == 4 else Rows(inputs)


def is_image_folder(source: Any) -> bool:
    """True if this is the path of a folder of images, and not a name that is known."""
    if not isinstance(source, str | Path):
        return False
    is_known = isinstance(source, str) and find_published(source) is not None
    return not is_known and Path(source).is_dir() and holds_images(Path(source))


def thumbnail(examples: Examples, position: int) -> Tensor:
    """Return a small image, ``[channels, height, width]`` of bytes."""
    with examples.reading():
        image = examples.read(position)
    if not isinstance(image, Image.Image):
        raise InvalidTypeError("these examples are no images")
    image = image.convert("RGB")
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _embedded(
    part: RawPart, class_names: tuple[str, ...], backbone: Backbone, skip_bad: bool, tell: Tell
) -> tuple[Dataset, Tensor, tuple[str, ...]]:
    found = embed_once(part.examples, backbone, tell)
    notes = refuse_bad(part.examples, found, skip_bad)
    true_labels = None if part.true_labels is None else part.true_labels[found.kept]
    data = Dataset(held(found.vectors), part.labels[found.kept], class_names, true_labels)
    return data, found.kept, notes


def _names_of(part: RawPart, kept: Tensor) -> tuple[str, ...] | None:
    """Return the names of the examples that are kept; None if each is where it was before."""
    if part.names is None and len(kept) == len(part.labels):
        return None
    return tuple(str(place) if part.names is None else part.names[place] for place in kept.tolist())


def _rows_of(frame: pl.LazyFrame | None, kept: Tensor | None) -> pl.LazyFrame | None:
    if frame is None or kept is None:
        return None
    rows = pl.Series(kept.tolist(), dtype=pl.UInt32)
    is_kept = pl.col(_ROW_INDEX).is_in(rows.implode())
    return frame.with_row_index(_ROW_INDEX).filter(is_kept).drop(_ROW_INDEX)


def _folder(path: Path) -> RawSplits:
    train, test, notes = find_trees(path)
    return RawSplits(
        path.name,
        _tree_part(train),
        None if test is None else _tree_part(test),
        train.class_names,
        str(path),
        notes,
    )


def _tree_part(tree: ImageTree) -> RawPart:
    return RawPart(ImageFiles(tree.files, tree.names), tree.labels, names=tree.names)


def _raw_part(data: Dataset, names: Sequence[str] | None = None) -> RawPart:
    examples = examples_of(data.dense_inputs)
    return RawPart(examples, data.labels, data.true_labels, None if names is None else tuple(names))
