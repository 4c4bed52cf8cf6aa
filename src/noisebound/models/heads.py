"""Heads for the embeddings of a backbone."""

import math
from collections.abc import Sequence

from torch import nn

from noisebound.models.dropout import USUAL_DROPOUT, QuickDropout
from noisebound.models.mlp import mlp

_HIDDEN = 256


def linear(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a linear classifier of the flattened inputs, which begins at zero.

    A linear model needs no chance to break a symmetry, and what chance puts in the weights of rare
    features would never be unlearned.

    Args:
        input_shape: shape of one example
        num_classes: number of classes, which is the number of logits
    """
    layer = nn.Linear(math.prod(input_shape), num_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def mlp_head(
    input_shape: Sequence[int],
    num_classes: int,
    hidden: int = _HIDDEN,
    dropout: float = USUAL_DROPOUT,
) -> nn.Sequential:
    """Return a network of one hidden layer, with dropout before it and after it.

    Args:
        input_shape: shape of one example
        num_classes: number of classes, which is the number of logits
        hidden: width of the hidden layer
        dropout: probability that an input or a hidden unit is left out of a step
    """
    return nn.Sequential(
        nn.Flatten(),
        QuickDropout(dropout),
        nn.Linear(math.prod(input_shape), hidden),
        nn.ReLU(),
        QuickDropout(dropout),
        nn.Linear(hidden, num_classes),
    )


def wide_head(input_shape: Sequence[int], num_classes: int) -> nn.Sequential:
    """Return a network of one hidden layer of 512 units, with no dropout.

    It memorizes the wrong labels of its training data, as the paper's networks do.

    Args:
        input_shape: shape of one example
        num_classes: number of classes, which is the number of logits
    """
    return mlp(input_shape, num_classes, hidden=(512,))
