"""The backbone that a user names or hands over."""

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from torch import nn

from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.features.backbone import Backbone
from noisebound.features.hugging_face import HuggingFaceBackbone
from noisebound.features.onnx_runtime import OnnxBackbone
from noisebound.features.own import OwnBackbone
from noisebound.features.timm_network import TimmBackbone

BackboneLike: TypeAlias = str | Backbone | nn.Module | Callable[[Any], Any]

_KINDS: dict[str, Callable[[str, dict[str, Any]], Backbone]] = {
    "hf": HuggingFaceBackbone,
    "onnx": OnnxBackbone,
    "timm": TimmBackbone,
}


def parse_backbone(backbone: BackboneLike, image_size: int | None = None) -> Backbone:
    """Return the backbone of this name, or around this module or function.

    Args:
        backbone: ``"hf:NAME_OR_FOLDER"``, ``"onnx:FILE"`` or ``"timm:NAME"``, each with options
            as in ``"onnx:net.onnx?size=128"``; an ``nn.Module`` or a function from a batch to
            vectors; or a `Backbone`
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
                f"`backbone` must be hf:NAME_OR_FOLDER, onnx:FILE or timm:NAME, got {backbone!r}"
            )
        if image_size is not None:
            raise InvalidValueError(
                "a backbone knows the size of its images: leave `image_size` out, or write "
                "onnx:FILE?size=…"
            )
        place, _, query = rest.partition("?")
        return _KINDS[kind](place, _options(backbone, query))
    if callable(backbone):
        return OwnBackbone(backbone, image_size)
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
