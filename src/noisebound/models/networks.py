"""Networks by name: multilayer perceptrons, heads for embeddings, convolutional networks.

Each function takes the shape of one example, ``(channels, height, width)`` for images, and the
number of classes, which is the number of logits.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from noisebound.checks import check_num_classes
from noisebound.errors import InvalidValueError
from noisebound.models.names import FOR_IMAGES, MODEL_NAMES, ModelName
from noisebound.models.regularized import USUAL_DROPOUT, QuickDropout
from noisebound.models.resnet import ResNet


def mlp(
    input_shape: Sequence[int], num_classes: int, hidden: Sequence[int] = (512, 512)
) -> nn.Sequential:
    """Return a network of hidden layers of these widths, with ReLU and without batch norm."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((math.prod(input_shape), *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], num_classes))


def mlp_head(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a network of one hidden layer, with dropout before it and after it."""
    return nn.Sequential(
        nn.Flatten(),
        QuickDropout(USUAL_DROPOUT),
        nn.Linear(math.prod(input_shape), 256),
        nn.ReLU(),
        QuickDropout(USUAL_DROPOUT),
        nn.Linear(256, num_classes),
    )


def linear(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a linear classifier of the flattened inputs, which starts at zero.

    A linear model has no symmetry to break, and random weights of rare features would never be
    unlearned.
    """
    layer = nn.Linear(math.prod(input_shape), num_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def small_cnn(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a network of three convolutional blocks, a mean over all positions and a linear layer.

    A block is a 3×3 convolution, batch norm, ReLU and max pooling by two.
    """
    size, before = min(input_shape[1:]), input_shape[0]
    layers: list[nn.Module] = []
    for after in (32, 64, 128):
        convolution = nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        if size >= 2:
            layers.append(nn.MaxPool2d(2))
        size, before = size // 2, after
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes)]
    network = nn.Sequential(*layers, *head)
    # On a CPU, training takes half of the time on color images, and two thirds on gray ones.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def strided_cnn(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a network of two 3×3 convolutions with stride two and one hidden layer.

    Batch norm and ReLU follow each convolution. On a CPU it takes an eighth of the time of
    ``small_cnn``, which spends most of its time in the first block, at full resolution.
    """
    before, height, width = input_shape
    layers: list[nn.Module] = []
    for after in (32, 64):
        convolution = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        before, height, width = after, (height + 1) // 2, (width + 1) // 2
    head = [nn.Linear(before * height * width, 128), nn.ReLU(), nn.Linear(128, num_classes)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


MODELS: dict[ModelName, Callable[[Sequence[int], int], nn.Module]] = {
    "mlp": mlp,
    "small_mlp": partial(mlp, hidden=(256, 256)),  # on 28×28 images nearly three times as fast
    "small_cnn": small_cnn,
    "strided_cnn": strided_cnn,
    "resnet18": partial(ResNet, (2, 2, 2, 2)),
    "resnet34": partial(ResNet, (3, 4, 6, 3)),
    "linear": linear,
    "mlp_head": mlp_head,
    "wide_head": partial(mlp, hidden=(512,)),  # memorizes wrong labels, as the paper's networks do
}


def default_model(input_shape: Sequence[int]) -> ModelName:
    """Return the network that fits the data: ``small_cnn`` for images, ``mlp`` for features.

    Args:
        input_shape: shape of one example: ``(channels, height, width)`` or ``(features,)``

    Example:
        >>> default_model((3, 32, 32)), default_model((13,))
        ('small_cnn', 'mlp')
    """
    return "small_cnn" if len(input_shape) == 3 else "mlp"


def create_model(
    name: ModelName, input_shape: Sequence[int], num_classes: int, seed: int = 0
) -> nn.Module:
    """Return a network whose initial weights follow from the seed; global seeds do not change.

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
    if name in FOR_IMAGES and len(input_shape) != 3:
        raise InvalidValueError(
            f"{name} takes images, and these inputs have shape {tuple(input_shape)}: use 'mlp'"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](input_shape, check_num_classes(num_classes))
