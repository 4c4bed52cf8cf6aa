"""A pretrained encoder and a head, trained together."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class FineTuned(nn.Module):
    """An encoder whose vectors are scaled by constants and go to a head.

    Batch norm within the encoder keeps the statistics of its pretraining, so that a network does
    not depend on how a batch is divided; its weights are trained. Dropout works as in any training.

    Beside a text there may be other columns. They stand before its tokens as the bits of float32,
    read as int32, so that both fit in one tensor. Scale and shift apply to them too.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        scale: Float[Tensor, " features"],
        shift: Float[Tensor, " features"],
        *,
        columns_beside: int = 0,
        examples_at_once: int = 32,
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)
        self.columns_beside, self.examples_at_once = columns_beside, examples_at_once

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """Return the logits."""
        vectors = self.encoder(inputs[:, self.columns_beside :])
        if self.columns_beside:
            columns = inputs[:, : self.columns_beside].contiguous().view(torch.float32)
            vectors = torch.cat([vectors, columns.to(vectors.dtype)], dim=1)
        logits: Tensor = self.head(vectors * self.scale + self.shift)
        return logits

    def train(self, mode: bool = True) -> "FineTuned":
        """Set the mode of all layers but the encoder's batch norm."""
        super().train(mode)
        for layer in self.encoder.modules():
            if isinstance(layer, _BatchNorm):
                layer.eval()
        return self
