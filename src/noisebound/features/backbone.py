"""Backbones: frozen encoders from raw examples to vectors, and adapters for a user's encoder."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int32
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from noisebound.errors import DataError
from noisebound.features.examples import Example, Modality
from noisebound.system.files import fingerprint

_TAKEN = {"image": "images", "text": "texts", "features": "rows of numbers"}
_REMEDIES = {
    "features": ", or name the columns that hold texts: `text`",
    "text": "; if they are paths of images, give the folder that the images are in",
}
_PADDING = -1  # fills up short texts; no token has this number
_IN_EVERY_MODULE = frozenset(vars(nn.Module()))  # hooks, and the weights themselves
_SETTINGS = (str, int, float, tuple, list, dict, Tensor)


def hash_of_file(path: Path) -> str:
    """Return a hash of every byte of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_weights(weights: Mapping[str, Tensor], about: str = "") -> str:
    """Return a hash of every weight with its name, after a description of the network."""
    digest = hashlib.sha256(about.encode())
    for name, value in weights.items():
        digest.update(f"{name} {fingerprint(value.detach().cpu())}".encode())
    return digest.hexdigest()


class Backbone(ABC):
    """A pretrained encoder. Its weights are read when the first batch is embedded.

    Attributes:
        name: the argument of `parse_backbone` that makes the same backbone, such as ``"hf:folder"``
        modalities: the kinds of examples that it takes
        batch_size: number of examples per batch
        image_size: height and width that images are scaled to, if the user gave it
    """

    name: str
    modalities: frozenset[Modality]
    batch_size: int = 32
    image_size: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave cached properties out: another process reads the weights again."""
        state, kind = vars(self), type(self)
        cached = {name for name in state if isinstance(getattr(kind, name, None), cached_property)}
        return {name: value for name, value in state.items() if name not in cached}

    @property
    @abstractmethod
    def fingerprint(self) -> str | None:
        """Hash of the weights, the preprocessing and the pooling.

        Without a hash (None) the embeddings are not cached.
        """

    @abstractmethod
    def describe(self, modality: Modality) -> str:
        """Return how an example becomes a vector, for the log."""

    @abstractmethod
    def prepare(self, example: Example) -> Any:
        """Return one example as :meth:`embed` takes it; called from several threads."""

    @abstractmethod
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""

    def count_unsuited(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return how many texts are too long, and how many consist mostly of unknown words."""
        return 0, 0

    def check_modality(self, modality: Modality) -> None:
        if modality not in self.modalities:
            takes = " or ".join(_TAKEN[kind] for kind in sorted(self.modalities))
            raise DataError(
                f"the backbone {self.name} takes {takes}, and these examples are "
                f"{_TAKEN[modality]}: choose another `backbone`{_REMEDIES.get(modality, '')}"
            )


class NetworkBackbone(Backbone):
    """A backbone with a torch network, which can be fine-tuned if ``is_trainable``."""

    is_trainable: bool = True

    @abstractmethod
    def network_for(self, modality: Modality) -> nn.Module:
        """Return the frozen network, from a batch of prepared examples or tokens to vectors."""

    def tokenize(self, texts: Sequence[str]) -> list[Int32[Tensor, " _"]]:
        """Return the tokens of each text."""
        raise NotImplementedError

    @torch.no_grad()
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        is_text = isinstance(prepared[0], str)
        network = self.network_for("text" if is_text else "image")
        shapes = set() if is_text else {tuple(each.shape) for each in prepared}
        if len(shapes) > 1:
            raise DataError(
                f"the images have {len(shapes)} sizes, such as {sorted(shapes)[:2]}: bring them to "
                "one with `image_size`"
            )
        inputs = padded(self.tokenize(prepared)) if is_text else torch.stack(list(prepared))
        weight = next(network.parameters(), None)
        if weight is not None:
            inputs = inputs.to(weight.device) if is_text else inputs.to(weight)
        was_training = network.training  # as a module of the user's own may be
        try:
            vectors: Tensor = network.eval()(inputs)
        finally:
            network.train(was_training)
        if vectors.ndim != 2 or len(vectors) != len(prepared):
            raise DataError(
                f"the backbone {self.name} must return one vector per example, of shape "
                f"[{len(prepared)}, dimension]; got {list(vectors.shape)}"
            )
        return vectors.float().cpu()

    def trainable_copy(self, modality: Modality) -> nn.Module:
        """Return a copy of the network, all of whose weights can be trained."""
        network = copy.deepcopy(self.network_for(modality))
        return network.eval().requires_grad_(True).cpu()


class CustomBackbone(NetworkBackbone):
    """Calls a module or a function with each batch.

    It gets images as float32 ``[batch, channels, height, width]`` from 0 to 1, texts as a list of
    strings, and rows of features as float32; it returns one vector per example. A module is put in
    evaluation mode while it works.
    """

    modalities = frozenset[Modality]({"image", "text", "features"})

    def __init__(
        self, encoder: nn.Module | Callable[[Any], Any], image_size: int | None = None
    ) -> None:
        self.image_size, self.is_trainable = image_size, isinstance(encoder, nn.Module)
        kind = encoder if hasattr(encoder, "__qualname__") else type(encoder)
        self.name = f"own:{kind.__module__}.{kind.__qualname__}"
        self._network = encoder if isinstance(encoder, nn.Module) else _Function(encoder)

    @cached_property
    def fingerprint(self) -> str | None:
        """Hash of a module's import path, settings and weights, or None for a function.

        A change of the module's code in place does not change the hash.
        """
        if not self.is_trainable:
            return None
        digest = hashlib.sha256(f"{self.name} {self._network} {self.image_size}".encode())
        for name, layer in self._network.named_modules():
            settings = {
                key: value
                for key, value in vars(layer).items()
                if key not in _IN_EVERY_MODULE and isinstance(value, _SETTINGS)
            }
            digest.update(f"{name} {settings}".encode())
        digest.update(hash_of_weights(self._network.state_dict()).encode())
        return digest.hexdigest()

    def describe(self, modality: Modality) -> str:
        return f"output of {self.name.removeprefix('own:')}"

    def prepare(self, example: Example) -> Tensor | str:
        """Return an image as ``[channels, height, width]`` from 0 to 1; anything else unchanged."""
        if isinstance(example, Image.Image):
            size = self.image_size
            if size is not None and example.size != (size, size):
                example = ImageOps.fit(example, (size, size), Image.Resampling.BILINEAR)
            pixels = torch.from_numpy(np.array(example))
            example = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        if isinstance(example, Tensor) and example.dtype == torch.uint8:
            return example / 255
        return example

    def network_for(self, modality: Modality) -> nn.Module:
        return _FromCodePoints(self._network) if modality == "text" else self._network

    def tokenize(self, texts: Sequence[str]) -> list[Int32[Tensor, " _"]]:
        return [torch.tensor(list(map(ord, text)), dtype=torch.int32) for text in texts]


class _Function(nn.Module):
    """A function as a module without weights."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, batch: Any) -> Tensor:
        return torch.as_tensor(self.function(batch))


class _FromCodePoints(nn.Module):
    """Gives strings to a module; the loader has them as code points."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.train(module.training)

    def forward(self, codes: Int32[Tensor, "batch length"]) -> Tensor:
        texts = ["".join(chr(code) for code in row if code >= 0) for row in codes.tolist()]
        vectors: Tensor = self.module(texts)
        return vectors


def padded(tokens: Sequence[Int32[Tensor, " _"]]) -> Int32[Tensor, "batch longest"]:
    """Return texts as one tensor, with negative numbers after their last token."""
    return pad_sequence(list(tokens), batch_first=True, padding_value=_PADDING)


def usual_device() -> str:
    """Return the kind of device that encoders run on."""
    return "cuda" if torch.cuda.is_available() else "cpu"
