"""A user's module or function as a backbone, and `parse_backbone`, which takes any backbone."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import numpy as np
import torch
from jaxtyping import Float, Float32, Int32
from PIL import Image, ImageOps
from torch import Tensor, nn

from noisebound.errors import DataError, InvalidTypeError, InvalidValueError
from noisebound.features.backbone import Backbone, hash_of_weights
from noisebound.features.examples import Example, Modality
from noisebound.features.hugging_face import HuggingFaceBackbone
from noisebound.features.image_backbones import OnnxBackbone, TimmBackbone
from noisebound.features.packaged import packaged_backbone
from noisebound.features.tunable import Tunable, trainable_copy

_IN_EVERY_MODULE = frozenset(vars(nn.Module()))  # hooks, and the weights themselves
_SETTINGS = (str, int, float, tuple, list, dict, Tensor)


class CustomBackbone(Backbone):
    """Calls a module or a function with each batch.

    It gets images as float32 ``[batch, channels, height, width]`` from 0 to 1, texts as a list of
    strings, and rows of features as float32; it returns one vector per example.

    Args:
        encoder: the module, which is put in evaluation mode while it works, or the function
        image_size: height and width in pixels that images are scaled to; by default they must have
            one size
    """

    modalities = frozenset[Modality]({"image", "text", "features"})

    def __init__(
        self, encoder: nn.Module | Callable[[Any], Any], image_size: int | None = None
    ) -> None:
        self.encoder, self.image_size = encoder, image_size
        kind = encoder if hasattr(encoder, "__qualname__") else type(encoder)
        self.name = f"own:{kind.__module__}.{kind.__qualname__}"

    @cached_property
    def fingerprint(self) -> str | None:
        """Hash of a module's import path, settings and weights, or None for a function.

        A change of the module's code in place does not change the hash.
        """
        if not isinstance(self.encoder, nn.Module):
            return None
        digest = hashlib.sha256(f"{self.name} {self.encoder} {self.image_size}".encode())
        for name, layer in self.encoder.named_modules():
            settings = {
                key: value
                for key, value in vars(layer).items()
                if key not in _IN_EVERY_MODULE and isinstance(value, _SETTINGS)
            }
            digest.update(f"{name} {settings}".encode())
        digest.update(hash_of_weights(self.encoder.state_dict()).encode())
        return digest.hexdigest()

    def describe(self, modality: Modality) -> str:
        """Return the name of the module or function."""
        return f"output of {self.name.removeprefix('own:')}"

    def prepare(self, example: Example) -> Tensor | str:
        """Return bytes ``[channels, height, width]`` of an image; anything else as it is."""
        if not isinstance(example, Image.Image):
            return example
        size = self.image_size
        if size is not None and example.size != (size, size):
            example = ImageOps.fit(example, (size, size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(example))
        return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)

    @torch.no_grad()
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""
        vectors = torch.as_tensor(self._call(_batch(prepared)))
        if vectors.ndim != 2 or len(vectors) != len(prepared):
            raise DataError(
                f"the backbone {self.name} must return one vector per example, of shape "
                f"[{len(prepared)}, dimension]; got {list(vectors.shape)}"
            )
        return vectors.detach().cpu().to(torch.float32)

    @property
    def untunable(self) -> str | None:
        """The reason why a function cannot be trained."""
        is_module = isinstance(self.encoder, nn.Module)
        return None if is_module else "a function has no weights that could be trained"

    def tunable(self, modality: Modality) -> Tunable:
        """Return a trainable copy of the module, with the same inputs."""
        self.check_tunable()
        assert isinstance(self.encoder, nn.Module)
        network = trainable_copy(self.encoder)
        if modality == "text":
            return Tunable(_FromCodePoints(network), self._input, _code_points)
        return Tunable(network, self._input)

    def _input(self, example: Example) -> Tensor:
        prepared = self.prepare(example)
        assert isinstance(prepared, Tensor)
        return prepared / 255 if prepared.dtype == torch.uint8 else prepared

    def _call(self, batch: Any) -> Any:
        if not isinstance(self.encoder, nn.Module):
            return self.encoder(batch)
        first = next(self.encoder.parameters(), None)
        if first is not None and isinstance(batch, Tensor):
            batch = batch.to(first.device, first.dtype)
        was_training = self.encoder.training
        self.encoder.eval()
        try:
            return self.encoder(batch)
        finally:
            self.encoder.train(was_training)


class _FromCodePoints(nn.Module):
    """Gives strings to a module; the loader has them as code points."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, codes: Int32[Tensor, "batch length"]) -> Float[Tensor, "batch dimension"]:
        rows = codes.tolist()
        texts = ["".join(chr(code) for code in row if code >= 0) for row in rows]
        vectors: Tensor = self.module(texts)
        return vectors


def _code_points(texts: Sequence[str]) -> list[list[int]]:
    return [list(map(ord, text)) for text in texts]


def _batch(prepared: Sequence[Any]) -> Any:
    if isinstance(prepared[0], str):
        return list(prepared)
    shapes = {tuple(each.shape) for each in prepared}
    if len(shapes) > 1:
        raise DataError(
            f"the images have {len(shapes)} sizes, such as {sorted(shapes)[:2]}: bring them to one "
            "with `image_size`"
        )
    stacked = torch.stack(list(prepared))
    return stacked / 255 if stacked.dtype == torch.uint8 else stacked


BackboneLike: TypeAlias = str | Backbone | nn.Module | Callable[[Any], Any]

_KINDS: dict[str, Callable[[str, dict[str, Any]], Backbone]] = {
    "hf": HuggingFaceBackbone,
    "onnx": OnnxBackbone,
    "timm": TimmBackbone,
    "package": packaged_backbone,
}


def parse_backbone(backbone: BackboneLike, image_size: int | None = None) -> Backbone:
    """Return the backbone of this name, or around this module or function.

    Args:
        backbone: ``"hf:NAME_OR_FOLDER"``, ``"onnx:FILE"``, ``"timm:NAME"`` or
            ``"package:NAME"``, some with options as in ``"onnx:net.onnx?size=128"``; an
            ``nn.Module`` or a function from a batch to vectors; or a `Backbone`
        image_size: height and width of the images that a module or function gets

    Example:
        >>> parse_backbone(lambda texts: [[len(text)] for text in texts]).embed(["a", "bcd"])
        tensor([[1.],
                [3.]])
    """
    if isinstance(backbone, Backbone):
        return backbone
    if isinstance(backbone, str):
        kind, _, rest = backbone.partition(":")
        if kind not in _KINDS or not rest:
            raise InvalidValueError(
                f"`backbone` must be hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME or package:NAME, got "
                f"{backbone!r}"
            )
        if image_size is not None:
            raise InvalidValueError(
                "a backbone knows the size of its images: leave `image_size` out, or write "
                "onnx:FILE?size=…"
            )
        place, _, query = rest.partition("?")
        return _KINDS[kind](place, _options(backbone, query))
    if callable(backbone):
        return CustomBackbone(backbone, image_size)
    raise InvalidTypeError(
        "`backbone` must be a name, an nn.Module, or a function from a batch to vectors; got "
        f"{type(backbone).__name__}"
    )


def _options(backbone: str, query: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError as error:
        raise InvalidValueError(
            f"`backbone` {backbone!r}: options are written as ?name=value&name=value"
        ) from error
    return {name: value.split(",") if "," in value else value for name, value in pairs}
