"""New data as the inputs of a trained model, embedded if it has a backbone, and its predictions."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import polars as pl
import torch
from torch import Tensor

from noisebound.data import EmbeddedBy, ReadingOptions
from noisebound.data.arrays import inputs_from_array
from noisebound.data.dataset import joined_texts
from noisebound.data.images import decode_once
from noisebound.data.load import Unlabeled, read
from noisebound.data.rows import Rows, TensorRows, as_rows
from noisebound.data.table_files import TableFile, as_table, is_frame, is_table, read_table_file
from noisebound.data.texts import TEXT_COLUMN
from noisebound.errors import DataError, RunError
from noisebound.features import Backbone, BackboneLike, Examples, parse_backbone
from noisebound.features.embed_once import UnsuitedTextWarning, embed_once, refuse_bad, text_notes
from noisebound.features.examples import ImageFiles, Modality, PathFiles, Texts, image_paths
from noisebound.features.load import examples_of
from noisebound.features.tunable import TunedBackbone
from noisebound.runs.saved_model import ModelCard, SavedModel
from noisebound.system.files import written_whole
from noisebound.system.spreadsheets import quote_formulas

Names: TypeAlias = list[str] | list[int]


def new_inputs(
    model: SavedModel, data: Any, options: ReadingOptions, backbone: Callable[[], Backbone]
) -> tuple[Names, Tensor | Rows]:
    """Return the name of each new example, and the inputs of the model.

    A model with a backbone embeds new data by the same backbone.

    Args:
        model: the trained model
        data: an image or a .txt file, or a folder of them, a CSV, TSV, JSONL, Parquet, Excel, npz
            or npy file, a folder of embeddings, or the name of a data set, for its test examples;
            in memory, a data frame, an array, a list of texts, or a list of paths of images for a
            model with a backbone
        options: how to read the data
        backbone: returns the model's backbone, if it is needed
    """
    card = model.card
    if card.backbone is not None:
        return _new_embeddings(card, card.backbone, data, options, backbone)
    found = _read(card, data, options)
    if found.images is not None:
        return _decoded(card, found, options.skip_bad)
    if found.frame is not None:
        return found.names, _encoded(card, found.frame, found.source)
    assert found.inputs is not None
    return found.names, found.inputs


def _read(card: ModelCard, data: Any, options: ReadingOptions) -> Unlabeled:
    raw_columns = frozenset() if card.encoder is None else card.encoder.raw_columns
    raw_columns |= frozenset() if card.backbone is None else frozenset(card.backbone.text_columns)
    return read(data, options, labeled=False, raw_columns=raw_columns)


def _decoded(card: ModelCard, found: Unlabeled, skip_bad: bool) -> tuple[Names, Tensor | Rows]:
    """Return the names of the readable images, and their pixels at the size of the model."""
    assert found.images is not None
    files, names = found.images
    if len(card.input_shape) != 3:
        raise DataError(f"the model takes features, and {found.source} holds images")
    channels, height, width = card.input_shape
    mode: Literal["L", "RGB"] = "L" if channels == 1 else "RGB"
    decoded = decode_once(files, names, mode=mode, size=(height, width), skip_bad=skip_bad)
    return [names[place] for place in decoded.kept], decoded.images


def _encoded(card: ModelCard, frame: pl.LazyFrame, source: str) -> Tensor | Rows:
    encoder, is_image = card.encoder, len(card.input_shape) == 3
    is_texts = frame.collect_schema().names() == [TEXT_COLUMN]
    if encoder is not None:
        # A model of texts alone takes texts, whatever their column was called.
        if is_texts and len(encoder.columns) == len(encoder.text_columns) == 1:
            frame = frame.rename({TEXT_COLUMN: encoder.text_columns[0]})
        return encoder.transform_new(frame)
    if is_texts and is_image:
        raise DataError(
            f"the model takes images, got {source}: give the folder that the images are in, or an "
            "array of them"
        )
    is_numeric = all(dtype.is_numeric() for dtype in frame.collect_schema().dtypes())
    if not is_numeric or source != "the data frame":
        kind, remedy = ("images", "a folder of images") if is_image else ("arrays", "an npz file")
        raise DataError(f"the model was trained on {kind}, and {source} is a table: give {remedy}")
    return inputs_from_array(frame.collect().to_numpy())


def _new_embeddings(
    card: ModelCard,
    made_by: EmbeddedBy,
    data: Any,
    options: ReadingOptions,
    backbone: Callable[[], Backbone],
) -> tuple[Names, Tensor]:
    names: Names
    columns: Tensor | None = None
    examples: Examples
    paths = image_paths(data) if made_by.modality == "image" else None
    if paths is not None:
        names, examples = paths, ImageFiles(PathFiles(), paths)
    else:
        found = _read(card, data, options)
        names = found.names
        if found.images is not None:
            examples = ImageFiles(*found.images)
        elif found.frame is not None:
            examples, columns = _texts(card, made_by, found.frame.collect(), names)
        else:
            assert found.inputs is not None
            is_raw = found.inputs.ndim != 2 or made_by.modality == "features"
            if found.embedded_by is not None or not is_raw:
                _check_embedded(card, made_by, found)
                return names, _checked(_dense(found.inputs), card)
            examples = examples_of(_dense(found.inputs))
    encoder = backbone()
    embedded = embed_once(examples, encoder)
    refuse_bad(examples, embedded, options.skip_bad)
    for note in text_notes(encoder, (examples, embedded.kept)):
        warnings.warn(note, UnsuitedTextWarning, stacklevel=3)
    vectors = embedded.vectors
    if columns is not None:
        vectors = torch.cat([vectors, columns[embedded.kept]], dim=1)
    kept = [names[place] for place in embedded.kept.tolist()]
    return cast(Names, kept), _checked(vectors, card)


def _texts(
    card: ModelCard, made_by: EmbeddedBy, frame: pl.DataFrame, names: Names
) -> tuple[Texts, Tensor | None]:
    """Return the texts of a table, and the features of the columns beside them."""
    columns, present = made_by.text_columns, ", ".join(frame.columns)
    if frame.columns == [TEXT_COLUMN]:  # texts alone, whatever their column was called
        if card.encoder is not None:
            needed = ", ".join(column.name for column in card.encoder.columns)
            raise DataError(
                f"the model was trained on a table of the columns {needed}: give it a table with "
                "these, not texts alone"
            )
        columns = (TEXT_COLUMN,)
    elif not columns:
        raise DataError(
            f"the model takes {made_by.modality} inputs, got a table with the columns {present}: "
            "give the kind of data that it was trained on"
        )
    elif any(name not in frame.columns for name in columns):
        raise DataError(
            f"the model was trained on the texts of {', '.join(columns)}, and this table has the "
            f"columns {present}"
        )
    texts = Texts(joined_texts(frame, columns), [str(name) for name in names])
    if card.encoder is None:
        return texts, None
    features = card.encoder.transform_new(frame)
    assert isinstance(features, Tensor)  # the texts have none
    return texts, features


def _check_embedded(card: ModelCard, made_by: EmbeddedBy, found: Unlabeled) -> None:
    """Refuse vectors that the model's encoder would not give."""
    by = found.embedded_by
    if card.tuned is not None:
        what = "these are" if by is None else f"{found.source} holds"
        raise RunError(
            f"{what} embeddings, and the model's encoder was fine-tuned after they were made: give "
            "the images or texts themselves"
        )
    if by is not None and by.fingerprint != made_by.fingerprint:
        raise RunError(
            f"{found.source} holds embeddings by {by.name}, which is another encoder, or has other "
            f"weights, than {made_by.name} that the model was trained with"
        )


def _dense(inputs: Tensor | Rows) -> Tensor:
    rows = as_rows(inputs)
    return rows.whole() if isinstance(rows, TensorRows) else rows.dense(torch.arange(len(rows)))


def _checked(vectors: Tensor, card: ModelCard) -> Tensor:
    if tuple(vectors.shape[1:]) != card.input_shape:
        raise DataError(
            f"the model takes embeddings of {card.input_shape[0]} numbers, got vectors of "
            f"{vectors.shape[1]}: they are of another backbone"
        )
    return vectors


def backbone_of(saved: SavedModel, backbone: BackboneLike | None = None) -> Backbone:
    """Return the backbone of a model, fine-tuned if training did so.

    Args:
        saved: a model with a backbone
        backbone: the original backbone, if it has moved or is the user's own
    """
    made_by = saved.card.backbone
    assert made_by is not None
    found = same_backbone(made_by, backbone)
    if saved.encoder_weights is None:
        return found
    return TunedBackbone(found, cast(Modality, made_by.modality), saved.encoder_weights)


def same_backbone(made_by: EmbeddedBy, backbone: BackboneLike | None = None) -> Backbone:
    """Return the backbone that a model was trained with; raise an error for any other.

    Args:
        made_by: its record in the model
        backbone: the same backbone, if it has moved or is the user's own
    """
    if backbone is None and made_by.name.startswith("own:"):
        raise RunError(
            f"the model was trained on the embeddings of {made_by.name.removeprefix('own:')}: pass "
            "the same module or function as `backbone`"
        )
    if backbone is None or isinstance(backbone, str | Backbone):
        found = parse_backbone(backbone or made_by.name)
    else:
        found = parse_backbone(backbone, made_by.image_size)
    if found.fingerprint != made_by.fingerprint:
        raise RunError(
            f"{found.name} is another encoder than the model was trained with, or has other "
            f"weights or preprocessing than {made_by.name} had then: give the same as `backbone`"
        )
    return found


def predictions_frame(
    names: Names, model: SavedModel, probs: Tensor, ids: Mapping[int, str] | None = None
) -> pl.DataFrame:
    """Return one row per example: its name, its predicted class, and all class probabilities.

    Args:
        names: the name of each example, or its row
        model: the trained model
        probs: the class probabilities of each example
        ids: the id of each row of a table that has a column of ids
    """
    class_names = model.card.class_names
    columns = {f"p({name})": probs[:, index].numpy() for index, name in enumerate(class_names)}
    labels = [class_names[index] for index in probs.argmax(1).tolist()]
    known = {} if ids is None else {"id": [ids[int(row)] for row in names]}
    return pl.DataFrame({"example": names, **known, "label": labels, **columns})


def read_ids(data: Any, column: str, options: ReadingOptions) -> dict[int, str] | None:
    """Return the id of each row of a table, or None if the data is not a table with this column."""
    if is_frame(data):
        table = TableFile(as_table(data).lazy())
    elif isinstance(data, str | Path) and is_table(Path(data)) and Path(data).exists():
        table = read_table_file(Path(data), options, raw_columns={column})
    else:
        return None
    if column not in table.frame.collect_schema().names():
        return None
    ids = table.frame.select(pl.col(column).cast(pl.String).fill_null("")).collect().to_series()
    return dict(zip(table.positions(len(ids)), ids.to_list(), strict=True))


def check_writable(path: Path) -> None:
    """Raise an error unless the file is CSV or Parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {path.name}")


def write_frame(frame: pl.DataFrame, path: Path, *, quotes_formulas: bool = True) -> None:
    """Write a table as CSV or Parquet, by the extension.

    Args:
        frame: the table
        path: the file
        quotes_formulas: True to quote texts in CSV that a spreadsheet would compute
    """
    check_writable(path)
    with written_whole(path) as part:
        if path.suffix.lower() == ".csv":
            (quote_formulas(frame) if quotes_formulas else frame).write_csv(part)
        else:
            frame.write_parquet(part)
