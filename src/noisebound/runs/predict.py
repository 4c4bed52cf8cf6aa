"""New data as the inputs of a trained model, embedded if it has a backbone, and its predictions."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import polars as pl
import torch
from torch import Tensor

from noisebound.data import EmbeddedBy, ReadingOptions
from noisebound.data.arrays import inputs_from_array
from noisebound.data.dataset import joined_texts
from noisebound.data.images import decode_once
from noisebound.data.load import Unlabeled, read
from noisebound.data.options import validated
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
    model: SavedModel,
    data: Any,
    *,
    backbone: Callable[[], Backbone] | None = None,
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
    encoding: str | None = None,
) -> tuple[Names, Tensor | Rows]:
    """Return the name of each new example, and the inputs of the model.

    A model with a backbone embeds new data by the same backbone.

    Args:
        model: the trained model
        data: an image or a .txt file, or a folder of them, a CSV, TSV, JSONL, Parquet, Excel, npz
            or npy file, a folder of embeddings, or the name of a data set, for its test examples;
            in memory, a data frame, an array, a list of texts, or a list of paths of images for a
            model with a backbone
        backbone: returns the backbone of a model that has one, when it is needed
        data_dir: folder to look for published files in first
        skip_bad: True to leave out unreadable examples
        encoding: character encoding of a table or text file (default: UTF-8)
    """
    given = {"data_dir": data_dir, "skip_bad": skip_bad, "encoding": encoding}
    options = validated(ReadingOptions, given)
    if model.card.backbone is not None:
        assert backbone is not None
        return _new_embeddings(model.card, data, backbone, options)
    found = _read(model.card, data, options)
    if found.images is not None:
        return _decoded(model, found, skip_bad)
    if found.frame is not None:
        return found.names, _encoded(model, found.frame, found.source)
    assert found.inputs is not None
    return found.names, found.inputs


def _read(card: ModelCard, data: Any, options: ReadingOptions) -> Unlabeled:
    raw_columns = frozenset() if card.encoder is None else card.encoder.raw_columns
    raw_columns |= frozenset() if card.backbone is None else frozenset(card.backbone.text_columns)
    return read(data, options, labeled=False, raw_columns=raw_columns)


def _decoded(model: SavedModel, found: Unlabeled, skip_bad: bool) -> tuple[Names, Tensor | Rows]:
    """Return the names of the readable images, and their pixels at the size of the model."""
    assert found.images is not None
    files, names = found.images
    if len(model.card.input_shape) != 3:
        raise DataError(f"the model takes features, and {found.source} holds images")
    channels, height, width = model.card.input_shape
    decoded = decode_once(
        files,
        names,
        mode="L" if channels == 1 else "RGB",
        size=(height, width),
        skip_bad=skip_bad,
    )
    return [names[place] for place in decoded.kept], decoded.images


def _takes_texts(model: SavedModel) -> bool:
    """True if the model was trained on texts alone, whatever their column was called."""
    encoder = model.card.encoder
    return encoder is not None and len(encoder.columns) == len(encoder.text_columns) == 1


def _encoded(model: SavedModel, frame: pl.LazyFrame, source: str) -> Tensor | Rows:
    encoder = model.card.encoder
    is_texts = frame.collect_schema().names() == [TEXT_COLUMN]
    if encoder is not None:
        if is_texts and _takes_texts(model):
            frame = frame.rename({TEXT_COLUMN: encoder.text_columns[0]})
        return encoder.transform_new(frame)
    if is_texts and len(model.card.input_shape) == 3:
        raise DataError(
            f"the model takes images, got {source}: give the folder that the images are in, or an "
            "array of them"
        )
    is_numeric = all(dtype.is_numeric() for dtype in frame.collect_schema().dtypes())
    if not is_numeric or source != "the data frame":
        is_image = len(model.card.input_shape) == 3
        kind, remedy = ("images", "a folder of images") if is_image else ("arrays", "an npz file")
        raise DataError(f"the model was trained on {kind}, and {source} is a table: give {remedy}")
    return inputs_from_array(frame.collect().to_numpy())


class _Raw(NamedTuple):
    """Examples to embed, their names, and the features of the columns beside their texts."""

    examples: Examples
    names: Names
    columns: Tensor | None = None


def _new_embeddings(
    card: ModelCard, data: Any, backbone: Callable[[], Backbone], options: ReadingOptions
) -> tuple[Names, Tensor]:
    found = _raw(card, data, options)
    if isinstance(found, Unlabeled):  # embedded already
        assert found.inputs is not None
        return found.names, _checked(_dense(found.inputs), card)
    encoder = backbone()
    embedded = embed_once(found.examples, encoder)
    refuse_bad(found.examples, embedded, options.skip_bad)
    for note in text_notes(encoder, (found.examples, embedded.kept)):
        warnings.warn(note, UnsuitedTextWarning, stacklevel=3)
    vectors = embedded.vectors
    if found.columns is not None:
        vectors = torch.cat([vectors, found.columns[embedded.kept]], dim=1)
    names = [found.names[place] for place in embedded.kept.tolist()]
    return cast(Names, names), _checked(vectors, card)


def _raw(card: ModelCard, data: Any, options: ReadingOptions) -> _Raw | Unlabeled:
    """Return examples to embed; or vectors, if the data is embedded already."""
    made_by = card.backbone
    assert made_by is not None
    paths = image_paths(data) if made_by.modality == "image" else None
    if paths is not None:
        return _Raw(ImageFiles(PathFiles(), paths), paths)
    found = _read(card, data, options)
    if found.images is not None:
        return _Raw(ImageFiles(*found.images), found.names)
    if found.frame is not None and found.frame.collect_schema().names() == [TEXT_COLUMN]:
        _refuse_texts_alone(card)
        texts = joined_texts(found.frame, (TEXT_COLUMN,))
        return _Raw(Texts(texts, [str(name) for name in found.names]), found.names)
    if found.frame is not None:
        return _rows(found.frame.collect(), card, found.names)
    assert found.inputs is not None
    if found.embedded_by is not None:
        _refuse_if_tuned(card, f"{found.source} holds")
        if found.embedded_by.fingerprint != made_by.fingerprint:
            raise RunError(
                f"{found.source} holds embeddings by {found.embedded_by.name}, which is another "
                f"encoder, or has other weights, than {made_by.name} that the model was trained "
                "with"
            )
        return found
    if found.inputs.ndim != 2 or made_by.modality == "features":
        return _Raw(examples_of(_dense(found.inputs)), found.names)
    _refuse_if_tuned(card, "these are")
    return found


def _dense(inputs: Tensor | Rows) -> Tensor:
    rows = as_rows(inputs)
    return rows.whole() if isinstance(rows, TensorRows) else rows.dense(torch.arange(len(rows)))


def _rows(frame: pl.DataFrame, card: ModelCard, names: list[str] | list[int]) -> _Raw:
    """Return the texts of a table and the columns beside them that the model was trained on."""
    assert card.backbone is not None
    columns = card.backbone.text_columns
    if not columns:
        raise DataError(
            f"the model takes {card.backbone.modality} inputs, got a table with the columns "
            f"{', '.join(frame.columns)}: give the kind of data that it was trained on"
        )
    if any(name not in frame.columns for name in columns):
        raise DataError(
            f"the model was trained on the texts of {', '.join(columns)}, and this table has the "
            f"columns {', '.join(frame.columns)}"
        )
    texts = Texts(joined_texts(frame, columns), [str(name) for name in names])
    if card.encoder is None:
        return _Raw(texts, names)
    features = card.encoder.transform_new(frame)
    assert isinstance(features, Tensor)  # the texts have none
    return _Raw(texts, names, features)


def _refuse_if_tuned(card: ModelCard, what: str) -> None:
    if card.tuned is not None:
        raise RunError(
            f"{what} embeddings, and the model's encoder was fine-tuned after they were made: give "
            "the images or texts themselves"
        )


def _refuse_texts_alone(card: ModelCard) -> None:
    if card.encoder is not None:
        names = [column.name for column in card.encoder.columns]
        raise DataError(
            f"the model was trained on a table of the columns {', '.join(names)}: give it a table "
            "with these, not texts alone"
        )


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


def read_ids(
    data: Any, column: str, *, encoding: str | None = None, skip_bad: bool = False
) -> dict[int, str] | None:
    """Return the id of each row of a table, or None if the data is not a table with this column."""
    if is_frame(data):
        table = TableFile(as_table(data).lazy())
    elif isinstance(data, str | Path) and is_table(Path(data)) and Path(data).exists():
        table = read_table_file(
            Path(data), encoding=encoding, raw_columns={column}, skip_bad=skip_bad
        )
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
