"""A trained model as files: its weights, and everything needed to use it on new data."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from noisebound.data import EmbeddedBy, Normalization, TableEncoder
from noisebound.data.arrays import inputs_from_array
from noisebound.data.rows import Rows, SparseRows, as_rows, takes_sparse
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.learners.stored import dumped, estimators_of, rebuilt
from noisebound.models import ModelName, create_model
from noisebound.runs.folder import RunFolder, read_model
from noisebound.system.files import load_tensors, save_tensors, write_bytes, write_text
from noisebound.training.evaluation import examples_at_once
from noisebound.training.state import is_finite

Content = TypeVar("Content")

_SPARSE_BATCH = 1000  # sparse examples at once


class ModelCard(BaseModel):
    """The description of a trained model, stored beside its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[2] = 2
    model: ModelName | None  # None for a user's network
    input_shape: tuple[int, ...]  # of one example
    input_dtype: Literal["uint8", "float32"]
    class_names: tuple[str, ...]
    mean: tuple[float, ...]  # per channel or feature; empty if inputs are not scaled
    std: tuple[float, ...]
    encoder: TableEncoder | None = None
    backbone: EmbeddedBy | None = None  # whose embeddings the network takes
    tuned: str | None = None  # hash of the backbone's weights after fine-tuning
    estimators: str | None = None  # checksum of the stored estimators


class SavedModel:
    """A model in evaluation mode, with its card; on embeddings, a head.

    The encoder's weights are those of the backbone, if it was fine-tuned.
    """

    def __init__(
        self, model: nn.Module, card: ModelCard, encoder_weights: dict[str, Tensor] | None = None
    ) -> None:
        self.model, self.card, self.encoder_weights = model.eval(), card, encoder_weights
        self.normalization = Normalization(card.mean, card.std)

    @torch.no_grad()
    def probabilities(self, inputs: Any) -> Float[Tensor, "n classes"]:
        """Return the class probabilities of inputs that are not normalized yet.

        They are a tensor or rows as a `Dataset` holds them, or an array.
        """
        is_ready = isinstance(inputs, Tensor | Rows)
        given = as_rows(inputs if is_ready else inputs_from_array(inputs))
        if tuple(given.shape[1:]) != self.card.input_shape:
            raise DataError(
                f"the model takes inputs of shape {list(self.card.input_shape)}, got "
                f"{list(given.shape[1:])}"
            )
        dtype = str(given.dtype).removeprefix("torch.")
        if dtype != self.card.input_dtype:
            raise DataError(
                f"the model was trained on {self.card.input_dtype} inputs, got {dtype}: they may "
                "be on another scale; convert them"
            )
        blocks: Iterable[Tensor] = given.blocks(examples_at_once(self.card.input_shape))
        if isinstance(given, SparseRows) and takes_sparse(self.model):
            blocks = map(given.sparse, torch.split(torch.arange(len(given)), _SPARSE_BATCH))
        parts = [self.model(self.normalization(part)).softmax(1) for part in blocks]
        return torch.cat(parts) if parts else torch.empty(0, len(self.card.class_names))

    def classes(self, indices: NDArray[np.intp]) -> NDArray[Any]:
        """Return the classes at these indices, in the type that labels had.

        Names that are all whole numbers come back as integers, and ``False`` and ``True`` as truth
        values.
        """
        classes: NDArray[Any] = _restored(self.card.class_names)[indices]
        return classes

    def save(self, folder: str | Path) -> None:
        """Write the weights, then the card: where there is a card, there is a whole model."""
        if not is_finite(self.model):
            raise InvalidValueError(
                "the model is not saved, because its weights are not finite: training has "
                "diverged; lower `learning_rate`, or scale the features"
            )
        files = RunFolder(folder)
        estimators = estimators_of(self.model)
        if any(each is not None for each in estimators):
            content = dumped(estimators)
            self.card = self.card.model_copy(update={"estimators": _checksum(content)})
            write_bytes(files.estimators, content)
        card = self.card.model_dump_json(indent=2)
        if self.encoder_weights is not None:
            save_tensors(files.encoder, self.encoder_weights, {"tuned": self.card.tuned})
        save_tensors(files.weights, self.model.state_dict(), {"card": _checksum(card.encode())})
        write_text(files.card, card)

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module | None = None) -> "SavedModel":
        """Read a model back from a run's folder; pass the network if it is your own."""
        files = RunFolder(folder)
        for needed in (files.card, files.weights):
            if not needed.exists():
                raise RunError(
                    f"{folder} holds no trained model: {needed.name} is missing; train one with "
                    "noisebound fit"
                )
        weights, about = load_tensors(files.weights)
        if about.get("card") != _checksum(files.card.read_bytes()):
            raise DataError(
                f"{files.card} is damaged or was changed: it does not match the checksum in "
                f"{files.weights.name}; restore it, or train again"
            )
        card = read_model(files.card, ModelCard)
        classes = len(card.class_names)
        if model is None:
            if card.model is None:
                raise RunError(f"{folder} holds weights of a network of your own: pass `model`")
            model = create_model(card.model, card.input_shape, classes)
        if card.estimators is not None:
            content = _needed(files.estimators, Path.read_bytes)
            if _checksum(content) != card.estimators:
                raise DataError(
                    f"{files.estimators} is damaged or was changed: it does not match the checksum "
                    f"in {files.card.name}; restore it, or train again"
                )
            model = rebuilt(content, weights, model, classes)
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} are not this model's: {error}") from error
        if card.tuned is None:
            return cls(model, card)
        encoder_weights, about = _needed(files.encoder, load_tensors)
        if about.get("tuned") != card.tuned:
            raise DataError(f"{files.encoder} is of another training than {files.card.name}")
        return cls(model, card, encoder_weights)


def change_backbone(folder: str | Path, made_by: EmbeddedBy) -> None:
    """Describe the backbone of a saved model anew, with the checksum of the card that follows."""
    files = RunFolder(folder)
    changed = read_model(files.card, ModelCard).model_copy(update={"backbone": made_by})
    card, (weights, about) = changed.model_dump_json(indent=2), load_tensors(files.weights)
    save_tensors(files.weights, weights, about | {"card": _checksum(card.encode())})
    write_text(files.card, card)


def _needed(path: Path, read: Callable[[Path], Content]) -> Content:
    """Return the content of a file that was written with the model."""
    try:
        return read(path)
    except FileNotFoundError:
        raise RunError(
            f"{path.parent} lacks {path.name}, which was trained with the model: restore it, or "
            "train again"
        ) from None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _restored(names: tuple[str, ...]) -> NDArray[Any]:
    if all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in names):
        return np.array([int(name) for name in names])
    if set(names) <= {"False", "True"}:
        return np.array([name == "True" for name in names])
    return np.array(names)
