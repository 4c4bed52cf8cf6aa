"""New data embedded by the backbone that a model was trained with."""

from pathlib import Path
from typing import Any

from torch import Tensor

from noisebound.data import Dataset, EmbeddedBy, Splits, load
from noisebound.data.dataset import inputs_from_array
from noisebound.data.registry import find_published
from noisebound.data.user.arrays import read_inputs
from noisebound.data.user.embeddings_folder import holds_embeddings, read_embeddings
from noisebound.data.user.image_folder import unlabeled_names
from noisebound.errors import DataError, RunError
from noisebound.features import Backbone, BackboneLike, Examples, parse_backbone
from noisebound.features.embed_once import embed_once, refuse_bad
from noisebound.features.examples import ImageFiles, Texts
from noisebound.features.load import examples_of, is_texts
from noisebound.runs.saved_model import ModelCard


def new_embeddings(
    card: ModelCard,
    data: Any,
    backbone: BackboneLike | None,
    data_dir: str | Path | None,
    skip_bad: bool,
) -> tuple[list[str] | list[int], Tensor]:
    """Return the name of each new example, and its embedding.

    Args:
        card: of a model with a backbone
        data: a folder of images, an npz or npy file, the name of a data set, a `Dataset`, an array
            of images, or texts; embeddings of the right length are taken as they are
        backbone: where the backbone is now; None for where it was in training
        data_dir: where published files are looked for first
        skip_bad: True to leave out examples that cannot be read
    """
    assert card.backbone is not None
    if isinstance(data, str | Path) and holds_embeddings(Path(data)):
        return _stored(Path(data), card)
    found = _new_examples(data, data_dir)
    if isinstance(found, Tensor):
        return list(range(len(found))), _checked(found, card)
    examples, names = found
    embedded = embed_once(examples, same_backbone(card.backbone, backbone))
    refuse_bad(examples, embedded, skip_bad)
    kept = embedded.kept.tolist()
    vectors = _checked(embedded.vectors, card)
    return kept if names is None else [names[place] for place in kept], vectors


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
    found = parse_backbone(made_by.name if backbone is None else backbone)
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
    if splits.embedded_by.fingerprint != card.backbone.fingerprint:
        raise RunError(
            f"{folder} holds embeddings by {splits.embedded_by.name}, which is another encoder, or "
            f"has other weights, than {card.backbone.name} that the model was trained with"
        )
    if splits.test is not None:
        return list(range(len(splits.test))), _checked(splits.test.dense_inputs, card)
    assert splits.train_names is not None
    return list(splits.train_names), _checked(splits.train.dense_inputs, card)


def _new_examples(
    data: Any, data_dir: str | Path | None
) -> tuple[Examples, list[str] | None] | Tensor:
    """Return examples and their names; or vectors, where the data is embedded already."""
    if isinstance(data, str | Path) and not _is_published(data):
        path = Path(data)
        if path.is_dir():
            files, names = unlabeled_names(path)
            return ImageFiles(files, names), names
        if not path.exists():
            raise DataError(f"{data} is neither a file or folder nor a known data set")
        data = read_inputs(path)
    if is_texts(data):
        return Texts(list(data)), None
    if isinstance(data, str | Path):
        data = load(data, data_dir=data_dir)
    if isinstance(data, Splits):
        data = data.test or data.train
    inputs = data.dense_inputs if isinstance(data, Dataset) else inputs_from_array(data)
    return inputs if inputs.ndim == 2 else (examples_of(inputs), None)


def _is_published(data: str | Path) -> bool:
    return isinstance(data, str) and find_published(data) is not None


def _checked(vectors: Tensor, card: ModelCard) -> Tensor:
    if tuple(vectors.shape[1:]) != card.input_shape:
        raise DataError(
            f"the model takes embeddings of {card.input_shape[0]} numbers, got vectors of "
            f"{vectors.shape[1]}: they are of another backbone"
        )
    return vectors
