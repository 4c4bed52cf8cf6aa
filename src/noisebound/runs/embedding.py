"""New data embedded by the backbone that a model was trained with."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl
import torch
from torch import Tensor

from noisebound.data import Dataset, EmbeddedBy, ReadingOptions, Splits, load
from noisebound.data.dataset import joined_texts
from noisebound.data.formats.table_files import is_table, read_table_file
from noisebound.data.frames import as_table, is_frame
from noisebound.data.from_arrays import inputs_from_array
from noisebound.data.registry import find_published
from noisebound.data.user.arrays import read_inputs
from noisebound.data.user.embeddings_folder import holds_embeddings, read_embeddings
from noisebound.data.user.image_folder import unlabeled_names
from noisebound.data.user.texts import TEXT_COLUMN, as_texts, read_unlabeled_texts, whole_texts
from noisebound.errors import DataError, RunError
from noisebound.features import Backbone, BackboneLike, Examples, parse_backbone
from noisebound.features.embed_once import UnsuitedTextWarning, embed_once, refuse_bad, text_notes
from noisebound.features.examples import ImageFiles, Modality, PathFiles, Texts, image_paths
from noisebound.features.load import examples_of
from noisebound.features.tunable import TunedBackbone
from noisebound.runs.saved_model import ModelCard, SavedModel


def new_embeddings(
    saved: SavedModel,
    data: Any,
    backbone: Callable[[], Backbone],
    options: ReadingOptions,
) -> tuple[list[str] | list[int], Tensor]:
    """Return the name of each new example, and its embedding.

    Args:
        saved: a model with a backbone
        data: a folder of images or of .txt files, a table, an npz or npy file, the name of a data
            set, a `Dataset`, a data frame, an array of images, a list of paths of images, or
            texts; embeddings of images or texts, of the right length, are taken as they are
        backbone: returns the model's backbone, if it is needed
        options: how to read the data
    """
    card = saved.card
    assert card.backbone is not None
    if isinstance(data, str | Path) and holds_embeddings(Path(data)):
        return _stored(Path(data), card)
    found = _new_examples(data, options, card)
    if isinstance(found, Tensor):
        return list(range(len(found))), _checked(found, card)
    encoder = backbone()
    embedded = embed_once(found.examples, encoder)
    refuse_bad(found.examples, embedded, options.skip_bad)
    for note in text_notes(encoder, (found.examples, embedded.kept)):
        warnings.warn(note, UnsuitedTextWarning, stacklevel=2)
    kept, vectors = embedded.kept.tolist(), embedded.vectors
    if found.columns is not None:
        vectors = torch.cat([vectors, found.columns[embedded.kept]], dim=1)
    vectors = _checked(vectors, card)
    return kept if found.names is None else [found.names[place] for place in kept], vectors


def backbone_of(saved: SavedModel, backbone: BackboneLike | None = None) -> Backbone:
    """Return the backbone of a model, with the weights that fine-tuning gave it if it did.

    Args:
        saved: a model with a backbone
        backbone: where the backbone is now, as it was before; None for where it was in training
    """
    made_by = saved.card.backbone
    assert made_by is not None
    found = same_backbone(made_by, backbone)
    if saved.encoder_weights is None:
        return found
    return TunedBackbone(found, cast(Modality, made_by.modality), saved.encoder_weights)


def same_backbone(made_by: EmbeddedBy, backbone: BackboneLike | None = None) -> Backbone:
    """Return the backbone that a model was trained with, or refuse another one.

    Args:
        made_by: what is known of it
        backbone: where it is now; None for where it was in training
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


def _stored(folder: Path, card: ModelCard) -> tuple[list[str] | list[int], Tensor]:
    splits = read_embeddings(folder)
    assert splits.embedded_by is not None
    assert card.backbone is not None
    _refuse_if_tuned(card, f"{folder} holds")
    if splits.embedded_by.fingerprint != card.backbone.fingerprint:
        raise RunError(
            f"{folder} holds embeddings by {splits.embedded_by.name}, which is another encoder, or "
            f"has other weights, than {card.backbone.name} that the model was trained with"
        )
    if splits.test is not None:
        return list(range(len(splits.test))), _checked(splits.test.dense_inputs, card)
    assert splits.train_names is not None
    return list(splits.train_names), _checked(splits.train.dense_inputs, card)


class _NewExamples(NamedTuple):
    """New examples, their names, and the features of the columns beside their texts."""

    examples: Examples
    names: list[str] | list[int] | None = None
    columns: Tensor | None = None


def _new_examples(data: Any, options: ReadingOptions, card: ModelCard) -> _NewExamples | Tensor:
    """Return examples; or vectors, where the data is embedded already."""
    assert card.backbone is not None
    if isinstance(data, str | Path) and not _is_published(data):
        path = Path(data)
        if not path.exists():
            raise DataError(f"{data} is neither a file or folder nor a known data set")
        if path.is_dir():
            return _files(path, options, card)
        if is_table(path):
            written = frozenset(card.backbone.text_columns)
            written |= frozenset() if card.encoder is None else card.encoder.written_columns
            table = read_table_file(
                path, encoding=options.encoding, written=written, skip_bad=options.skip_bad
            )
            rows = table.frame.collect()
            return _rows(rows, card, table.positions(len(rows)))
        data = read_inputs(path)
    if is_frame(data):
        return _rows(as_table(data), card)
    paths = image_paths(data) if card.backbone.modality == "image" else None
    if paths is not None:
        return _NewExamples(ImageFiles(PathFiles(), paths), paths)
    texts = as_texts(data)
    if texts is not None:
        _refuse_texts_alone(card)
        return _NewExamples(Texts(whole_texts(texts)))
    if isinstance(data, str | Path):
        data = load(data, data_dir=options.data_dir)
    if isinstance(data, Splits):
        data, frame = data.to_predict
        if frame is not None and card.backbone.modality == "text":
            return _rows(frame.collect(), card)
    inputs = data.dense_inputs if isinstance(data, Dataset) else inputs_from_array(data)
    if inputs.ndim != 2 or card.backbone.modality == "features":
        return _NewExamples(examples_of(inputs))
    _refuse_if_tuned(card, "these are")
    return inputs


def _files(path: Path, options: ReadingOptions, card: ModelCard) -> _NewExamples:
    assert card.backbone is not None
    if card.backbone.modality == "text":
        _refuse_texts_alone(card)
        names, frame = read_unlabeled_texts(path, options)
        return _NewExamples(Texts(joined_texts(frame, (TEXT_COLUMN,)), names), names)
    files, images = unlabeled_names(path)
    return _NewExamples(ImageFiles(files, images), images)


def _rows(frame: pl.DataFrame, card: ModelCard, positions: list[int] | None = None) -> _NewExamples:
    """Return the texts of a table and the columns beside them that the model was trained on.

    Args:
        frame: the rows
        card: the model's card
        positions: where each row is in the file, which are the names of the rows; None if it has
            them all
    """
    assert card.backbone is not None
    columns = card.backbone.text_columns
    if not columns:
        is_image = card.backbone.modality == "image"
        kinds = ("images", "images") if is_image else ("text files", ".txt files")
        raise DataError(
            f"the model was trained on {kinds[0]}, and this is a table: give a folder of {kinds[1]}"
        )
    if not set(columns) <= set(frame.columns):
        raise DataError(
            f"the model was trained on the texts of {', '.join(columns)}, and this table has the "
            f"columns {', '.join(frame.columns)}"
        )
    positions = list(range(len(frame))) if positions is None else positions
    texts = Texts(joined_texts(frame, columns), [str(position) for position in positions])
    if card.encoder is None:
        return _NewExamples(texts, positions)
    features = card.encoder.transform(frame)
    assert isinstance(features, Tensor)  # the texts have none
    return _NewExamples(texts, positions, features)


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


def _is_published(data: str | Path) -> bool:
    return isinstance(data, str) and find_published(data) is not None


def _checked(vectors: Tensor, card: ModelCard) -> Tensor:
    if tuple(vectors.shape[1:]) != card.input_shape:
        raise DataError(
            f"the model takes embeddings of {card.input_shape[0]} numbers, got vectors of "
            f"{vectors.shape[1]}: they are of another backbone"
        )
    return vectors
