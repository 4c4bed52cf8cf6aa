"""The table of networks, and how one is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from noisebound.checks import check_num_classes
from noisebound.errors import InvalidValueError
from noisebound.models.architectures import (
    linear,
    mlp,
    mlp_head,
    small_cnn,
    small_mlp,
    strided_cnn,
    wide_head,
)
from noisebound.models.names import MODEL_NAMES, ModelName
from noisebound.models.resnet import resnet18, resnet34


@dataclass(frozen=True)
class ModelSpec:
    """A network by name.

    Args:
        make: returns the network for the shape of one example and the number of classes
        takes: ``"images"`` if an example must be ``(channels, height, width)``; ``"anything"`` if
            it may have any shape
    """

    make: Callable[[Sequence[int], int], nn.Module]
    takes: Literal["images", "anything"]


MODELS: dict[ModelName, ModelSpec] = {
    "mlp": ModelSpec(mlp, takes="anything"),
    "small_mlp": ModelSpec(small_mlp, takes="anything"),
    "small_cnn": ModelSpec(small_cnn, takes="images"),
    "strided_cnn": ModelSpec(strided_cnn, takes="images"),
    "resnet18": ModelSpec(resnet18, takes="images"),
    "resnet34": ModelSpec(resnet34, takes="images"),
    "linear": ModelSpec(linear, takes="anything"),
    "mlp_head": ModelSpec(mlp_head, takes="anything"),
    "wide_head": ModelSpec(wide_head, takes="anything"),
}


def default_model(input_shape: Sequence[int]) -> ModelName:
    """Return the network that fits the data: ``small_cnn`` for images, ``mlp`` for features.

    Args:
        input_shape: shape of one example: ``(channels, height, width)`` or ``(features,)``

    Example:
        >>> default_model((3, 32, 32)), default_model((13,))
        ('small_cnn', 'mlp')
    """
    return "small_cnn" if _is_image(input_shape) else "mlp"


DEFAULT_HEAD: ModelName = "mlp_head"
"""The network on the embeddings of a backbone."""


def create_model(
    name: ModelName, input_shape: Sequence[int], num_classes: int, seed: int = 0
) -> nn.Module:
    """Return a network whose initial weights follow from the seed.

    The global random generator is left as it was.

    Args:
        name: one of ``MODEL_NAMES``
        input_shape: shape of one example: ``(channels, height, width)`` or ``(features,)``
        num_classes: number of classes, which is the number of logits
        seed: seed of the initial weights

    Example:
        >>> sum(p.numel() for p in create_model("resnet18", (3, 32, 32), 10).parameters())
        11173962
    """
    if name not in MODELS:
        raise InvalidValueError(f"`model` must be one of {', '.join(MODEL_NAMES)}, got {name!r}")
    spec = MODELS[name]
    if spec.takes == "images" and not _is_image(input_shape):
        raise InvalidValueError(
            f"{name} takes images, and these inputs have shape {tuple(input_shape)}: use 'mlp'"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return spec.make(input_shape, check_num_classes(num_classes))


def _is_image(input_shape: Sequence[int]) -> bool:
    return len(input_shape) == 3
