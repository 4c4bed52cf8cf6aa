"""New data embedded by the backbone that a model was trained with."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import polars as pl
import torch
from torch import Tensor

from noisebound.data import EmbeddedBy, ReadingOptions
from noisebound.data.dataset import joined_texts
from noisebound.data.load import Unlabeled, read
from noisebound.data.rows import Rows, TensorRows, as_rows
from noisebound.data.texts import TEXT_COLUMN
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
        data: an image or a .txt file, or a folder of them, a table, an npz or npy file, the name of
            a data set, a `Dataset`, a data frame, an array of images, a list of paths of images,
            or texts; embeddings of images or texts, of the right length, are taken as they are
        backbone: returns the model's backbone, if it is needed
        options: how to read the data
    """
    card = saved.card
    assert card.backbone is not None
    found = _new_examples(data, options, card)
    if isinstance(found, Unlabeled):  # embedded already
        assert found.inputs is not None
        return found.names, _checked(_dense(found.inputs), card)
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


class _NewExamples(NamedTuple):
    """New examples, their names, and the features of the columns beside their texts."""

    examples: Examples
    names: list[str] | list[int] | None = None
    columns: Tensor | None = None


def _new_examples(data: Any, options: ReadingOptions, card: ModelCard) -> _NewExamples | Unlabeled:
    """Return examples; or unlabeled vectors, where the data is embedded already."""
    made_by = card.backbone
    assert made_by is not None
    paths = image_paths(data) if made_by.modality == "image" else None
    if paths is not None:
        return _NewExamples(ImageFiles(PathFiles(), paths), paths)
    written = frozenset(made_by.text_columns)
    written |= frozenset() if card.encoder is None else card.encoder.written_columns
    found = read(data, options, labeled=False, written=written)
    if found.images is not None:
        files, names = found.images
        return _NewExamples(ImageFiles(files, names), names)
    if found.frame is not None and found.frame.collect_schema().names() == [TEXT_COLUMN]:
        _refuse_texts_alone(card)
        texts = joined_texts(found.frame, (TEXT_COLUMN,))
        return _NewExamples(Texts(texts, [str(name) for name in found.names]), found.names)
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
        return _NewExamples(examples_of(_dense(found.inputs)))
    _refuse_if_tuned(card, "these are")
    return found


def _dense(inputs: Tensor | Rows) -> Tensor:
    rows = as_rows(inputs)
    return rows.whole() if isinstance(rows, TensorRows) else rows.dense(torch.arange(len(rows)))


def _rows(frame: pl.DataFrame, card: ModelCard, names: list[str] | list[int]) -> _NewExamples:
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
        return _NewExamples(texts, names)
    features = card.encoder.transform_new(frame)
    assert isinstance(features, Tensor)  # the texts have none
    return _NewExamples(texts, names, features)


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
