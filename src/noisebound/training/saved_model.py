"""A trained model as files: its weights, and everything needed to use it on new data."""

import json
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from noisebound.data import DataError, Normalization, TableEncoder
from noisebound.files import write_text, written_whole
from noisebound.models import ModelName, create_model

_WEIGHTS, _ABOUT = "model.safetensors", "model.json"
_BATCH = 1000


class ModelCard(BaseModel):
    """What is known of a trained model beside its weights.

    Args:
        model: the network's name; None for one of the user's own
        input_shape: of one example
        input_dtype: ``uint8`` for images of bytes, else ``float32``
        class_names: of each logit
        mean: of the training inputs, per channel or feature
        std: their deviation
        encoder: for tables, what turns rows into features
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int = 1
    model: ModelName | None
    input_shape: tuple[int, ...]
    input_dtype: Literal["uint8", "float32"]
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    encoder: TableEncoder | None = None


class SavedModel:
    """A model in evaluation mode, with its card."""

    def __init__(self, model: nn.Module, card: ModelCard) -> None:
        self.model, self.card = model.eval(), card
        self.normalization = Normalization(card.mean, card.std)

    @torch.no_grad()
    def probabilities(self, inputs: Tensor) -> Float[Tensor, "n classes"]:
        """The class probabilities of inputs as they are in a `Dataset`: not yet normalized."""
        if tuple(inputs.shape[1:]) != self.card.input_shape:
            raise DataError(
                f"the model takes inputs of shape {list(self.card.input_shape)}, got "
                f"{list(inputs.shape[1:])}"
            )
        dtype = str(inputs.dtype).removeprefix("torch.")
        if dtype != self.card.input_dtype:
            raise DataError(
                f"the model was trained on {self.card.input_dtype} inputs, got {dtype}: they may "
                "be on another scale; convert them"
            )
        parts = [
            self.model(self.normalization(part)).softmax(1) for part in torch.split(inputs, _BATCH)
        ]
        return torch.cat(parts) if parts else torch.empty(0, len(self.card.class_names))

    def save(self, folder: Path) -> None:
        """Weights, then the card: where there is a card, there is a whole model."""
        # clones: safetensors refuses tensors that share memory, such as tied weights
        weights = {
            name: value.detach().cpu().contiguous().clone()
            for name, value in self.model.state_dict().items()
        }
        with written_whole(folder / _WEIGHTS) as part:
            save_file(weights, part)
        write_text(folder / _ABOUT, self.card.model_dump_json(indent=2))

    @classmethod
    def load(cls, folder: Path, model: nn.Module | None = None) -> "SavedModel":
        """Read it back; a network of the user's own has to be given."""
        try:
            text = (folder / _ABOUT).read_text(encoding="utf-8")
            card = ModelCard.model_validate(json.loads(text))
            weights = load_file(folder / _WEIGHTS)
        except FileNotFoundError as error:
            missing = _WEIGHTS if (folder / _ABOUT).exists() else _ABOUT
            raise DataError(
                f"{folder} holds no trained model: {missing} is missing; train one with: "
                "noisebound fit DATA --out DIR"
            ) from error
        except (OSError, ValueError, ValidationError, SafetensorError) as error:
            raise DataError(f"the model in {folder} is damaged: {error}") from error
        if model is None:
            if card.model is None:
                raise DataError(f"{folder} holds weights of a network of your own: pass model=")
            model = create_model(card.model, card.input_shape, len(card.class_names))
        _load_weights(model, weights, folder)
        return cls(model, card)


def _load_weights(model: nn.Module, weights: dict[str, Any], folder: Path) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise DataError(f"the weights in {folder} are not this model's: {error}") from error
