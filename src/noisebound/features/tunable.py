"""Fine-tuning: raw examples as inputs of an encoder, and the fine-tuned backbone."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int32, Int64, Shaped
from torch import Tensor, nn

from noisebound.data.images import done_ahead
from noisebound.data.rows import Rows
from noisebound.features.backbone import (
    Backbone,
    NetworkBackbone,
    hash_of_weights,
    padded,
    usual_device,
)
from noisebound.features.examples import Example, Examples, Modality, Texts

_TEXTS_AT_ONCE = 1000  # per call of the tokenizer: enough for full speed


def encoder_inputs(
    backbone: NetworkBackbone, examples: Examples, beside: Rows | None = None
) -> Rows:
    """Return examples, and the columns beside texts, for `NetworkBackbone.trainable_copy`."""
    if not isinstance(examples, Texts):
        return PreparedRows(examples, torch.arange(len(examples)), backbone.prepare)
    texts = [examples.read(position) for position in range(len(examples))]
    tokens: list[Tensor] = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        tokens += backbone.tokenize(texts[start : start + _TEXTS_AT_ONCE])
    return TokenRows(tokens, beside)


class PreparedRows(Rows):
    """Images or rows of features, each prepared when a batch asks for it."""

    def __init__(
        self,
        examples: Examples,
        positions: Int64[Tensor, " n"],
        prepare: Callable[[Example], Tensor],
    ) -> None:
        self.examples, self.positions, self.prepare = examples, positions, prepare
        first = self._read(int(positions[0]))
        super().__init__((len(positions), *first.shape), first.dtype)

    def select(self, indices: Int64[Tensor, " m"]) -> "PreparedRows":
        return PreparedRows(self.examples, self.positions[indices], self.prepare)

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        places = self.positions[indices].tolist()
        return torch.stack(list(done_ahead(self._read, places, most=len(places))))

    def _read(self, position: int) -> Tensor:
        return self.prepare(self.examples.read(position))


class TokenRows(Rows):
    """Texts as tokens, after the columns beside them; a batch is padded to its longest text."""

    def __init__(self, tokens: Sequence[Int32[Tensor, " _"]], beside: Rows | None = None) -> None:
        self.tokens, self.beside = tokens, beside
        columns = 0 if beside is None else beside.shape[1]
        super().__init__((len(tokens), columns + max(map(len, tokens), default=0)), torch.int32)

    def select(self, indices: Int64[Tensor, " m"]) -> "TokenRows":
        beside = None if self.beside is None else self.beside.select(indices)
        return TokenRows(self._at(indices), beside)

    def dense(self, indices: Int64[Tensor, " m"]) -> Int32[Tensor, "m length"]:
        tokens = padded(self._at(indices))
        if self.beside is None:
            return tokens
        # The bits of float32 fit beside tokens, and no precision rounds them.
        bits = self.beside.dense(indices).contiguous().view(torch.int32)
        return torch.cat([bits, tokens], dim=1)

    def _at(self, indices: Int64[Tensor, " m"]) -> list[Int32[Tensor, " _"]]:
        return [self.tokens[index] for index in indices.tolist()]


def freeze_unused(network: nn.Module, inputs: Tensor) -> None:
    """Freeze weights that the vectors do not depend on, such as an unused pooling layer.

    They get no gradient, for which several ranks would wait forever. Any batch will do.
    """
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    with torch.enable_grad():
        total = network(inputs).sum()
        found = torch.autograd.grad(total, weights, allow_unused=True) if weights else ()
    for weight, gradient in zip(weights, found, strict=True):
        weight.requires_grad_(gradient is not None)


class TunedBackbone(NetworkBackbone):
    """A backbone with fine-tuned weights, for the kind of examples that it was tuned on."""

    def __init__(self, base: Backbone, modality: Modality, weights: Mapping[str, Tensor]) -> None:
        assert isinstance(base, NetworkBackbone)  # others have no weights to tune
        self.base, self.name, self.modalities = base, base.name, frozenset({modality})
        self.batch_size = base.batch_size
        self._network = base.trainable_copy(modality).to(usual_device())
        self._network.load_state_dict(weights)
        self._hash = hash_of_weights(weights)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.base.fingerprint} {self._hash}".encode()).hexdigest()

    def describe(self, modality: Modality) -> str:
        return f"{self.base.describe(modality)}, fine-tuned"

    def count_unsuited(self, texts: Sequence[str]) -> tuple[int, int]:
        return self.base.count_unsuited(texts)

    def prepare(self, example: Example) -> Any:
        return self.base.prepare(example)

    def tokenize(self, texts: Sequence[str]) -> list[Int32[Tensor, " _"]]:
        return self.base.tokenize(texts)

    def network_for(self, modality: Modality) -> nn.Module:
        return self._network
