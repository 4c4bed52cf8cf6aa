"""Dropout whose random numbers cost less."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

_VALUES = 2**16  # of the 16 random bits that decide about one number

USUAL_DROPOUT = 0.3
"""The probability that an input or a hidden unit is left out of a step: a usual choice."""


class QuickDropout(nn.Dropout):
    """`torch.nn.Dropout`, with four decisions from each random number on the CPU.

    On embeddings of 1,280 numbers torch's takes 5.4 ms for a batch of 300, more than twice the
    matrix product after it, and this one 1.0 ms. The probability is rounded to 16 bits.
    """

    def forward(self, input: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the input with some numbers set to zero and the others enlarged accordingly."""
        dropped = round(self.p * _VALUES)
        if not self.training or input.device.type != "cpu" or not 0 < dropped < _VALUES:
            return super().forward(input)
        draws = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: input.numel()].view(input.shape)
        kept = bits >= dropped - _VALUES // 2
        return input * kept.to(input.dtype).mul_(_VALUES / (_VALUES - dropped))
