"""Networks by name, fitted to the shape of the data."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import torch
from torch import nn

from noisebound.checks import check_num_classes
from noisebound.errors import InvalidValueError
from noisebound.models.mlp import mlp, small_mlp
from noisebound.models.resnet import ResNet, resnet18, resnet34
from noisebound.models.small_cnn import small_cnn
from noisebound.models.strided_cnn import strided_cnn

ModelName: TypeAlias = Literal[
    "mlp", "small_mlp", "small_cnn", "strided_cnn", "resnet18", "resnet34"
]
MODEL_NAMES: tuple[ModelName, ...] = get_args(ModelName)

_MAKERS: dict[ModelName, Callable[[Sequence[int], int], nn.Module]] = {
    "mlp": mlp,
    "small_mlp": small_mlp,
    "small_cnn": small_cnn,
    "strided_cnn": strided_cnn,
    "resnet18": resnet18,
    "resnet34": resnet34,
}


def create_model(
    name: ModelName, input_shape: Sequence[int], num_classes: int, seed: int = 0
) -> nn.Module:
    """A network with weights that follow from the seed; the global generator is left alone.

    Args:
        name: one of ``MODEL_NAMES``
        input_shape: of one example: ``(channels, height, width)``, or ``(features,)``
        num_classes: the number of logits
        seed: decides the first weights

    Example:
        >>> sum(p.numel() for p in create_model("resnet18", (3, 32, 32), 10).parameters())
        11173962
    """
    if name not in _MAKERS:
        raise InvalidValueError(f"model must be one of {', '.join(MODEL_NAMES)}, got {name!r}")
    if not name.endswith("mlp") and len(input_shape) != 3:
        raise InvalidValueError(
            f"{name} takes images, and these inputs have shape {tuple(input_shape)}: use 'mlp'"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _MAKERS[name](input_shape, check_num_classes(num_classes))


__all__ = [
    "MODEL_NAMES",
    "ModelName",
    "ResNet",
    "create_model",
    "mlp",
    "resnet18",
    "resnet34",
    "small_cnn",
    "small_mlp",
    "strided_cnn",
]
