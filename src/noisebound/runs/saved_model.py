"""A trained model as files: its weights, and everything needed to use it on new data."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
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

_SPARSE_BATCH = 1000  # sparse examples at once


class ModelCard(BaseModel):
    """The description of a trained model, stored beside its weights.

    Attributes:
        format: the version of this record
        model: the network's name, unless it is the user's own
        input_shape: the shape of one example
        input_dtype: ``uint8`` for images of bytes, else ``float32``
        class_names: the name of each logit's class
        mean: of the training inputs, per channel or feature; empty for inputs that are not scaled
        std: their deviation, likewise
        encoder: turns the rows of a table into features
        backbone: the backbone whose embeddings the network takes, if any
        tuned: hash of the backbone's weights after fine-tuning, if it was fine-tuned
        estimators: checksum of the stored estimators, if there are any
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[2] = 2
    model: ModelName | None
    input_shape: tuple[int, ...]
    input_dtype: Literal["uint8", "float32"]
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    encoder: TableEncoder | None = None
    backbone: EmbeddedBy | None = None
    tuned: str | None = None
    estimators: str | None = None


class SavedModel:
    """A model in evaluation mode, with its card.

    Args:
        model: the network; on embeddings, the head
        card: its description
        encoder_weights: those of the backbone, where it was fine-tuned
    """

    def __init__(
        self, model: nn.Module, card: ModelCard, encoder_weights: dict[str, Tensor] | None = None
    ) -> None:
        self.model, self.card, self.encoder_weights = model.eval(), card, encoder_weights
        self.normalization = Normalization(card.mean, card.std)

    @torch.no_grad()
    def probabilities(self, inputs: Any) -> Float[Tensor, "n classes"]:
        """Return the class probabilities of inputs that are not normalized yet.

        Args:
            inputs: a tensor or rows as a `Dataset` holds them, or an array
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

    def classes(self, indices: Tensor) -> np.ndarray[Any, Any]:
        """Return the classes at these indices, in the type that labels had.

        Names that are all whole numbers come back as integers, and ``False`` and ``True`` as truth
        values.
        """
        classes: np.ndarray[Any, Any] = _restored(self.card.class_names)[indices.numpy()]
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
        """Read a model back.

        Args:
            folder: the run's folder
            model: the network, where it is one of the user's own
        """
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
            model = rebuilt(_estimators(files, card), weights, model, classes)
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} are not this model's: {error}") from error
        return cls(model, card, _encoder_weights(files, card))


def _estimators(files: RunFolder, card: ModelCard) -> bytes:
    """Return the stored estimators, with their checksum checked."""
    try:
        content = files.estimators.read_bytes()
    except FileNotFoundError:
        raise RunError(
            f"{files.path} lacks {files.estimators.name}, the learners that were trained: restore "
            "it, or train again"
        ) from None
    if _checksum(content) != card.estimators:
        raise DataError(
            f"{files.estimators} is damaged or was changed: it does not match the checksum in "
            f"{files.card.name}; restore it, or train again"
        )
    return content


def _encoder_weights(files: RunFolder, card: ModelCard) -> dict[str, Tensor] | None:
    if card.tuned is None:
        return None
    try:
        weights, about = load_tensors(files.encoder)
    except FileNotFoundError:
        raise RunError(
            f"{files.path} lacks {files.encoder.name}, the encoder that was trained with the model"
        ) from None
    if about.get("tuned") != card.tuned:
        raise DataError(f"{files.encoder} is of another training than {files.card.name}")
    return weights


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _restored(names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    if all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in names):
        return np.array([int(name) for name in names])
    if set(names) <= {"False", "True"}:
        return np.array([name == "True" for name in names])
    return np.array(names)
