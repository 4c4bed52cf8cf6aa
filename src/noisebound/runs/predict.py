"""New data as the inputs of a trained model, embedded if it has a backbone, and its predictions."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import polars as pl
import torch
from torch import Tensor

from noisebound.data import EmbeddedBy, ReadingOptions
from noisebound.data.arrays import inputs_from_array
from noisebound.data.frames import TEXT_COLUMN
from noisebound.data.images import decode_once
from noisebound.data.input_columns import vector_column, vectors_of
from noisebound.data.load import Unlabeled, read_unlabeled
from noisebound.data.rows import Rows, as_rows
from noisebound.data.splits import joined_texts
from noisebound.errors import DataError, RunError
from noisebound.estimation import prediction_sets
from noisebound.features import (
    Backbone,
    BackboneLike,
    Examples,
    ImageFiles,
    TensorExamples,
    Texts,
    UnsuitedTextWarning,
    embed_once,
    parse_backbone,
)
from noisebound.features.embed import refuse_bad, text_notes
from noisebound.features.examples import PathFiles, image_paths
from noisebound.runs.saved_model import ModelCard, SavedModel
from noisebound.system.files import written_whole
from noisebound.system.spreadsheets import quote_formulas


@dataclass(frozen=True, eq=False)
class NewExamples:
    """New examples as the inputs of a model."""

    names: list[str] | list[int]  # files or positions
    inputs: Tensor | Rows
    ids: list[str] | None = None  # from an id column of the table


def unlabeled(
    card: ModelCard, data: Any, options: ReadingOptions, id: str | None = None
) -> Unlabeled:
    """Return new examples as the model with this card reads them.

    The data may be an image or a .txt file, or a folder of them, a CSV, TSV, JSONL, Parquet, Excel,
    npz or npy file, a folder of embeddings, or the name of a data set, for its test examples. In
    memory, it may be a data frame, an array, a list of texts, or, for a model with a backbone, a
    list of paths of images.
    """
    made_by, encoder = card.backbone, card.encoder
    paths = image_paths(data) if made_by is not None and made_by.modality == "image" else None
    if paths is not None:
        return Unlabeled(paths, "the list of images", images=(PathFiles(), paths))
    raw_columns = frozenset() if encoder is None else encoder.raw_columns
    raw_columns |= frozenset(() if made_by is None else made_by.text_columns)
    if id is not None and (encoder is None or id not in encoder.types):
        raw_columns |= {id}
    return read_unlabeled(data, options, raw_columns)


def new_examples(
    model: SavedModel,
    found: Unlabeled,
    options: ReadingOptions,
    backbone: Callable[[], Backbone],
    id: str | None = None,
) -> NewExamples:
    """Return new examples as the inputs of a model, embedded if it has a backbone."""
    card, made_by = model.card, model.card.backbone
    ids = _ids(found.frame, id)
    if made_by is not None:
        return NewExamples(*_embedded(card, made_by, found, options, backbone), ids)
    if found.images is not None:
        return NewExamples(*_decoded(card, found, options.skip_bad))
    if found.frame is not None:
        return NewExamples(found.names, _encoded(card, found.frame, found.source), ids)
    assert found.inputs is not None
    return NewExamples(found.names, found.inputs)


def _ids(frame: pl.DataFrame | None, column: str | None) -> list[str] | None:
    if frame is None or column is None or column not in frame.columns:
        return None
    return frame[column].cast(pl.String).fill_null("").to_list()


def _decoded(
    card: ModelCard, found: Unlabeled, skip_bad: bool
) -> tuple[list[str] | list[int], Tensor | Rows]:
    """Return the names of the readable images, and their pixels at the size of the model."""
    assert found.images is not None
    files, names = found.images
    if len(card.input_shape) != 3:
        raise DataError(f"the model takes features, and {found.source} holds images")
    channels, height, width = card.input_shape
    mode: Literal["L", "RGB"] = "L" if channels == 1 else "RGB"
    decoded = decode_once(files, names, mode=mode, size=(height, width), skip_bad=skip_bad)
    kept: Any = list(compress(found.names, decoded.is_kept.tolist()))
    return kept, decoded.part(0, len(names))


def _encoded(card: ModelCard, frame: pl.DataFrame, source: str) -> Tensor | Rows:
    encoder, is_image = card.encoder, len(card.input_shape) == 3
    is_texts = frame.columns == [TEXT_COLUMN]
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
    column = None if is_image else vector_column(frame)
    if column is not None:
        return vectors_of(frame[column])
    is_numeric = all(dtype.is_numeric() for dtype in frame.dtypes)
    if not is_numeric or source != "the data frame":
        kind, remedy = ("images", "a folder of images") if is_image else ("arrays", "an npz file")
        raise DataError(f"the model was trained on {kind}, and {source} is a table: give {remedy}")
    return inputs_from_array(frame.to_numpy())


def _embedded(
    card: ModelCard,
    made_by: EmbeddedBy,
    found: Unlabeled,
    options: ReadingOptions,
    backbone: Callable[[], Backbone],
) -> tuple[list[str] | list[int], Tensor]:
    names, columns = found.names, None
    examples: Examples
    if found.images is not None:
        examples = ImageFiles(*found.images)
    elif found.frame is not None:
        examples, columns = _texts(card, made_by, found.frame, names)
    else:
        assert found.inputs is not None
        inputs = as_rows(found.inputs).whole()
        is_raw = inputs.ndim != 2 or made_by.modality == "features"
        if found.embedded_by is not None or not is_raw:
            _check_embedded(card, made_by, found)
            return names, _checked(inputs, card)
        examples = TensorExamples(inputs)
    encoder = backbone()
    embedded = embed_once(examples, encoder)
    refuse_bad(examples, embedded, options.skip_bad)
    for note in text_notes(encoder, examples):
        warnings.warn(note, UnsuitedTextWarning, stacklevel=3)
    vectors = embedded.vectors
    if columns is not None:
        vectors = torch.cat([vectors, columns[embedded.kept]], dim=1)
    kept: Any = [names[place] for place in embedded.kept.tolist()]
    return kept, _checked(vectors, card)


def _texts(
    card: ModelCard, made_by: EmbeddedBy, frame: pl.DataFrame, names: list[str] | list[int]
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


def _checked(vectors: Tensor, card: ModelCard) -> Tensor:
    if tuple(vectors.shape[1:]) != card.input_shape:
        raise DataError(
            f"the model takes embeddings of {card.input_shape[0]} numbers, got vectors of "
            f"{vectors.shape[1]}: they are of another backbone"
        )
    return vectors


def same_backbone(made_by: EmbeddedBy, backbone: BackboneLike | None = None) -> Backbone:
    """Return the backbone that a model was trained with; raise an error for any other.

    One that has moved, or is the user's own, has to be given.
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
    model: SavedModel, new: NewExamples, threshold: float | None = None
) -> pl.DataFrame:
    """Return one row per example: its name, its id, its class, and all class probabilities.

    A threshold adds the classes whose probability reaches it, separated by ``|``.
    """
    probs, class_names = model.probabilities(new.inputs), model.card.class_names
    columns = {f"p({name})": probs[:, index].numpy() for index, name in enumerate(class_names)}
    labels = [class_names[index] for index in probs.argmax(1).tolist()]
    ids = {} if new.ids is None else {"id": [new.ids[int(row)] for row in new.names]}
    sets = {}
    if threshold is not None:
        rows = prediction_sets(probs, threshold).tolist()
        sets["set"] = ["|".join(compress(class_names, row)) for row in rows]
    return pl.DataFrame({"example": new.names, **ids, "label": labels, **sets, **columns})


def check_writable(path: Path) -> None:
    """Raise an error unless the file is CSV or Parquet."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"a table is written as .csv or .parquet, got {path.name}")


def write_frame(frame: pl.DataFrame, path: Path, *, quotes_formulas: bool = True) -> None:
    """Write a table as CSV or Parquet, by the extension.

    In CSV, texts that a spreadsheet would compute are quoted by default.
    """
    check_writable(path)
    with written_whole(path) as part:
        if path.suffix.lower() == ".csv":
            (quote_formulas(frame) if quotes_formulas else frame).write_csv(part)
        else:
            frame.write_parquet(part)
