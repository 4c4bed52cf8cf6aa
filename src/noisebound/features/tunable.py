"""Fine-tuning: an encoder as a trainable network, its inputs, and the tuned backbone."""

import copy
import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float32, Int32, Int64, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from noisebound.data.rows import Rows
from noisebound.errors import DataError
from noisebound.features.backbone import Backbone, TextCounts, hash_of_weights
from noisebound.features.examples import Example, Examples, Modality, Texts

PADDING = -1
"""Fills up texts after their last token; no token has this number."""

Tokenize: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[int]]]
_TEXTS_AT_ONCE = 1000  # per call of the tokenizer: enough for full speed


class PreparedRows(Rows):
    """Images or rows of features, each prepared when a batch asks for it.

    Args:
        examples: all examples
        positions: the examples of these rows, in order
        prepare: makes the input of one example
    """

    def __init__(
        self,
        examples: Examples,
        positions: Int64[Tensor, " n"],
        prepare: Callable[[Example], Tensor],
    ) -> None:
        self.examples, self.positions, self.prepare = examples, positions, prepare
        with examples.reading():
            first = self._read(int(positions[0]))
        super().__init__((len(positions), *first.shape), first.dtype)

    def select(self, indices: Int64[Tensor, " m"]) -> "PreparedRows":
        """Return these rows, in this order."""
        return PreparedRows(self.examples, self.positions[indices], self.prepare)

    def dense(self, indices: Int64[Tensor, " m"]) -> Shaped[Tensor, "m ..."]:
        """Return these rows as a tensor; a few threads read and prepare them."""
        with self.examples.reading(), ThreadPoolExecutor(os.cpu_count()) as pool:
            return torch.stack(list(pool.map(self._read, self.positions[indices].tolist())))

    def _read(self, position: int) -> Tensor:
        return self.prepare(self.examples.read(position))


class TokenRows(Rows):
    """Texts as tokens, without padding in memory; a batch is padded to its longest text.

    Args:
        tokens: the tokens of all texts, concatenated
        ends: the end of each text in ``tokens``
        positions: the texts of these rows, in order
        beside: the columns beside the texts, if there are any
    """

    def __init__(
        self,
        tokens: Int32[Tensor, " all"],
        ends: Int64[Tensor, " texts"],
        positions: Int64[Tensor, " n"],
        beside: Rows | None = None,
    ) -> None:
        self.tokens, self.ends, self.positions, self.beside = tokens, ends, positions, beside
        longest = int(self._lengths().max()) if len(positions) else 0
        columns = 0 if beside is None else beside.shape[1]
        super().__init__((len(positions), columns + longest), tokens.dtype)

    @classmethod
    def of(
        cls,
        examples: Texts,
        positions: Int64[Tensor, " n"],
        tokenize: Tokenize,
        beside: Rows | None = None,
    ) -> "TokenRows":
        """Return the texts at these positions as tokens."""
        places, found = positions.tolist(), []
        for start in range(0, len(places), _TEXTS_AT_ONCE):
            texts = [examples.read(place) for place in places[start : start + _TEXTS_AT_ONCE]]
            found += [torch.tensor(each, dtype=torch.int32) for each in tokenize(texts)]
        ends = torch.tensor([len(each) for each in found]).cumsum(0)
        return cls(torch.cat(found), ends, torch.arange(len(found)), beside)

    def select(self, indices: Int64[Tensor, " m"]) -> "TokenRows":
        """Return these rows, in this order, without a copy of their tokens."""
        beside = None if self.beside is None else self.beside.select(indices)
        return TokenRows(self.tokens, self.ends, self.positions[indices], beside)

    def dense(self, indices: Int64[Tensor, " m"]) -> Int32[Tensor, "m length"]:
        """Return these rows as a tensor, as long as the longest of them."""
        stops, lengths = self.ends[self.positions[indices]], self._lengths()[indices]
        texts = [
            self.tokens[stop - length : stop]
            for stop, length in zip(stops.tolist(), lengths.tolist(), strict=True)
        ]
        padded = pad_sequence(texts, batch_first=True, padding_value=PADDING)
        if self.beside is None:
            return padded
        # The bits of float32 fit beside tokens, and no precision rounds them.
        bits = self.beside.dense(indices).contiguous().view(torch.int32)
        return torch.cat([bits, padded], dim=1)

    def _lengths(self) -> Int64[Tensor, " n"]:
        starts = torch.cat([self.ends.new_zeros(1), self.ends[:-1]])
        return (self.ends - starts)[self.positions]


@dataclass(frozen=True, eq=False)
class Tunable:
    """A trainable encoder, and how examples become its inputs.

    Args:
        network: from a batch of inputs to vectors; a copy of the backbone's network
        prepare: makes the input of an image or a row of features
        tokenize: returns the tokens of texts; only for texts
    """

    network: nn.Module
    prepare: Callable[[Example], Tensor]
    tokenize: Tokenize | None = None

    def rows(
        self, examples: Examples, positions: Int64[Tensor, " n"], beside: Rows | None = None
    ) -> Rows:
        """Return the inputs of the examples at these positions, with the columns beside them."""
        if self.tokenize is None:
            return PreparedRows(examples, positions, self.prepare)
        assert isinstance(examples, Texts)
        return TokenRows.of(examples, positions, self.tokenize, beside)

    def batch(self, prepared: Sequence[Any]) -> Tensor:
        """Return the inputs of prepared examples, or of texts, as one tensor."""
        if self.tokenize is None:
            return torch.stack(list(prepared))
        texts = [torch.tensor(each, dtype=torch.int32) for each in self.tokenize(prepared)]
        return pad_sequence(texts, batch_first=True, padding_value=PADDING)

    def freeze_unused(self, inputs: Tensor) -> None:
        """Freeze weights that the vectors do not depend on, such as an unused pooling layer.

        They have no gradient, and several ranks would wait for it forever. Any batch of inputs
        will do.
        """
        weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        with torch.enable_grad():
            total = self.network(inputs).sum()
            found = torch.autograd.grad(total, weights, allow_unused=True) if weights else ()
        for weight, gradient in zip(weights, found, strict=True):
            weight.requires_grad_(gradient is not None)


def usual_device() -> str:
    """Return the kind of device that encoders work on."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def trainable_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network, all of whose weights can be trained."""
    return copy.deepcopy(network).eval().requires_grad_(True)


class NetworkBackbone(Backbone):
    """A backbone with a torch network."""

    @abstractmethod
    def encoder(self, modality: Modality) -> Tunable:
        """Return the frozen network, and how examples become its inputs."""

    @torch.no_grad()
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""
        encoder = self.encoder("text" if isinstance(prepared[0], str) else "image")
        device = next(encoder.network.parameters()).device
        vectors: Tensor = encoder.network(encoder.batch(prepared).to(device))
        return vectors.float().cpu()

    @property
    def untunable(self) -> None:
        """None, because it can be trained."""

    def tunable(self, modality: Modality) -> Tunable:
        """Return a trainable copy of the network, with the same inputs."""
        encoder = self.encoder(modality)
        return replace(encoder, network=trainable_copy(encoder.network).cpu())


class TunedBackbone(NetworkBackbone):
    """A backbone with the weights that fine-tuning gave it.

    Args:
        base: the backbone before fine-tuning
        modality: the kind of examples that it was tuned on
        weights: the state of `Tunable.network`
    """

    def __init__(self, base: Backbone, modality: Modality, weights: Mapping[str, Tensor]) -> None:
        self.base, self.name, self.modalities = base, base.name, frozenset({modality})
        self.batch_size = base.batch_size
        self._tunable = base.tunable(modality)
        try:
            self._tunable.network.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights are not those of {base.name}: {error}") from error
        self._tunable.network.eval().to(usual_device())
        self._hash = hash_of_weights(weights)

    @property
    def fingerprint(self) -> str:
        """Hash of the backbone as it was, and of its weights now."""
        return hashlib.sha256(f"{self.base.fingerprint} {self._hash}".encode()).hexdigest()

    def describe(self, modality: Modality) -> str:
        """Return how an example becomes a vector."""
        return f"{self.base.describe(modality)}, fine-tuned"

    def count_texts(self, texts: Sequence[str]) -> TextCounts | None:
        """Return how many texts suit the encoder badly."""
        return self.base.count_texts(texts)

    def prepare(self, example: Example) -> Tensor | str:
        """Return the input of an image or a row; a text unchanged."""
        return example if isinstance(example, str) else self._tunable.prepare(example)

    def encoder(self, modality: Modality) -> Tunable:
        """Return the fine-tuned network."""
        return self._tunable
