"""Heads for the embeddings of a backbone."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_DROPOUT = 0.3
_HIDDEN = 256
_STEPS = 256  # values of a byte
_WORD = 8  # bytes that are drawn at once


class ByteDropout(nn.Dropout):
    """Dropout that draws one random byte per number on the CPU, where drawing takes the time.

    Drawing eight bytes at once makes a step of a head on embeddings about a quarter faster. The
    probability is rounded to 1/256, and what is kept is scaled accordingly, so that the mean stays.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs, in training with some of them set to zero."""
        dropped = round(self.p * _STEPS)
        if not self.training or inputs.device.type != "cpu" or not 0 < dropped < _STEPS:
            return super().forward(inputs)
        words = torch.empty(-(-inputs.numel() // _WORD), dtype=torch.int64)
        words.random_(torch.iinfo(torch.int64).min, None)
        drawn = words.view(torch.uint8)[: inputs.numel()].view(inputs.shape)
        kept = (drawn >= dropped).to(inputs.dtype)
        return inputs * kept.mul_(_STEPS / (_STEPS - dropped))


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
    input_shape: Sequence[int], num_classes: int, hidden: int = _HIDDEN, dropout: float = _DROPOUT
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
        ByteDropout(dropout),
        nn.Linear(math.prod(input_shape), hidden),
        nn.ReLU(),
        ByteDropout(dropout),
        nn.Linear(hidden, num_classes),
    )
