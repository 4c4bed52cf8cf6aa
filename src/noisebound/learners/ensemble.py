"""An ensemble: the average of a few fitted models."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Ensemble(nn.Module):
    """The mean of the probabilities of several models, as logits."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Float[Tensor, "n ..."]) -> Float[Tensor, "n classes"]:
        total = torch.zeros((), device=inputs.device)
        for member in self.members:  # one by one, because networks may compute in float64
            total = total + member(inputs).softmax(1)
        return (total / len(self.members)).clamp(min=torch.finfo(torch.float32).tiny).log()
