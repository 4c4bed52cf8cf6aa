"""Raw examples as the inputs of an encoder that is trained: prepared batch by batch."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import torch
from jaxtyping import Int32, Int64, Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from noisebound.data.rows import Rows
from noisebound.errors import InvalidTypeError
from noisebound.features.examples import Example, Examples, Texts

PADDING = -1
"""Stands after the last token of a text; no token has this number."""

Tokenize: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[int]]]
_TEXTS_AT_ONCE = 1000  # that are divided into tokens: enough for full speed


class PreparedRows(Rows):
    """Images or rows of features, each prepared when a batch asks for it.

    Args:
        examples: all examples
        positions: those that these rows are, in order
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
            self._first = self._read(int(positions[0]))

    @property
    def shape(self) -> torch.Size:
        """The number of rows, and then the shape of one."""
        return torch.Size((len(self.positions), *self._first.shape))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers."""
        return self._first.dtype

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
        tokens: those of all texts, one text after the other
        ends: where the tokens of each text end
        positions: the texts that these rows are, in order
        beside: the columns beside each of these rows; none for texts alone
    """

    def __init__(
        self,
        tokens: Int32[Tensor, " all"],
        ends: Int64[Tensor, " texts"],
        positions: Int64[Tensor, " n"],
        beside: Rows | None = None,
    ) -> None:
        self.tokens, self.ends, self.positions, self.beside = tokens, ends, positions, beside

    @classmethod
    def of(
        cls,
        examples: Texts,
        positions: Int64[Tensor, " n"],
        tokenize: Tokenize,
        beside: Rows | None = None,
    ) -> "TokenRows":
        """Return the tokens of texts.

        Args:
            examples: all texts
            positions: those to use, in order
            tokenize: returns the tokens of each text
            beside: the columns beside each text
        """
        places, found = positions.tolist(), []
        for start in range(0, len(places), _TEXTS_AT_ONCE):
            texts = [examples.read(place) for place in places[start : start + _TEXTS_AT_ONCE]]
            found += [torch.tensor(each, dtype=torch.int32) for each in tokenize(texts)]
        ends = torch.tensor([len(each) for each in found]).cumsum(0)
        return cls(torch.cat(found), ends, torch.arange(len(found)), beside)

    @property
    def shape(self) -> torch.Size:
        """The number of rows, and the length of the longest one."""
        longest = int(self._lengths().max()) if len(self.positions) else 0
        columns = 0 if self.beside is None else self.beside.shape[1]
        return torch.Size((len(self.positions), columns + longest))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the tokens."""
        return self.tokens.dtype

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
        return torch.cat([_bits(self.beside.dense(indices)), padded], dim=1)

    def _lengths(self) -> Int64[Tensor, " n"]:
        starts = torch.cat([self.ends.new_zeros(1), self.ends[:-1]])
        return (self.ends - starts)[self.positions]


def padded_tokens(tokens: Sequence[Sequence[int]]) -> Int32[Tensor, "m length"]:
    """Return tokens as a tensor, as long as the longest text."""
    texts = [torch.tensor(each, dtype=torch.int32) for each in tokens]
    return pad_sequence(texts, batch_first=True, padding_value=PADDING)


def _bits(columns: Tensor) -> Int32[Tensor, "m columns"]:
    """Return the bits of numbers, so that they stand beside tokens and no precision rounds them."""
    if columns.dtype != torch.float32:
        raise InvalidTypeError(f"columns beside texts must be float32, got {columns.dtype}")
    return columns.contiguous().view(torch.int32)
