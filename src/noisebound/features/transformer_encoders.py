"""A transformer with its pooling, as one network from tokens or pixels to vectors."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int32
from torch import Tensor, nn

from noisebound.features.pooling import Pooling


class TextEncoder(nn.Module):
    """A transformer of texts with its pooling.

    Args:
        network: the transformer
        pooling: how token vectors become one
        padding: the token that fills short texts up
    """

    def __init__(self, network: nn.Module, pooling: Pooling, padding: int) -> None:
        super().__init__()
        self.network, self.pooling, self.padding = network, pooling, padding

    def forward(self, tokens: Int32[Tensor, "batch length"]) -> Float[Tensor, "batch dimension"]:
        """Return one vector per text; a negative number stands where a text has ended."""
        is_token = tokens >= 0
        longest = int(is_token.sum(1).max())  # a part of a batch may be shorter than the batch
        is_token, tokens = is_token[:, :longest], tokens[:, :longest]
        ids = tokens.long().masked_fill(~is_token, self.padding)
        inputs = {"input_ids": ids, "attention_mask": is_token.long()}
        return pooled_texts(self.network, self.pooling, inputs)


class ImageEncoder(nn.Module):
    """A transformer of images with its pooling.

    Args:
        network: the transformer
        pooling: how token vectors become one
    """

    def __init__(self, network: nn.Module, pooling: Pooling) -> None:
        super().__init__()
        self.network, self.pooling = network, pooling

    def forward(
        self, pixels: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch dimension"]:
        """Return one vector per image."""
        return pooled_images(self.network, self.pooling, pixels)


def pooled_texts(
    network: nn.Module, pooling: Pooling, tokens: Mapping[str, Tensor]
) -> Float[Tensor, "batch dimension"]:
    """Return the vectors of texts that are tokens already."""
    if pooling.name == "features":
        return pooling.scaled(_tensor(network.get_text_features(**tokens)))  # type: ignore[operator]
    found = network(**tokens)
    if pooling.name == "pooler":
        return pooling.scaled(found.pooler_output)
    mask = tokens["attention_mask"]
    return pooling.scaled(pooling.tokens(found.last_hidden_state, mask))


def pooled_images(
    network: nn.Module, pooling: Pooling, pixels: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch dimension"]:
    """Return the vectors of images that the processor has prepared."""
    if pooling.name == "features":
        return pooling.scaled(_tensor(network.get_image_features(pixel_values=pixels)))  # type: ignore[operator]
    found = network(pixel_values=pixels)
    if pooling.name == "pooler":
        return pooling.scaled(found.pooler_output.flatten(1))
    hidden = found.last_hidden_state
    if hidden.ndim == 4:  # maps, channels first
        hidden = hidden.flatten(2).transpose(1, 2)
    mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
    return pooling.scaled(pooling.tokens(hidden, mask))


def _tensor(found: Any) -> Tensor:
    """Return the vectors, which newer versions wrap in an output."""
    vectors: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return vectors
