"""Predictions and labels per token: all labeled tokens of all sentences, joined to one table.

Estimates and suspects then need nothing of their own: to them, each token is an example.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, as_array
from noisebound.errors import InvalidTypeError, InvalidValueError

IGNORED = -100
"""The label of tokens that have none, as in PyTorch and Hugging Face."""


@dataclass(frozen=True, eq=False)
class JoinedTokens:
    """All labeled tokens, sentence after sentence."""

    probs: Float[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    places: Int64[Tensor, "n 2"]  # the sentence of each, and its position there
    sentences: int  # their number

    def positions_of(self, places: ArrayLike) -> Int64[Tensor, " m"]:
        """Return the rows of tokens that are given as pairs of sentence and position."""
        row_of = {(i, j): row for row, (i, j) in enumerate(self.places.tolist())}
        pairs = [tuple(pair) for pair in np.asarray(places).tolist()]
        for pair in pairs:
            if pair not in row_of:
                raise InvalidValueError(
                    "`trusted` names tokens as pairs (sentence, position) of a labeled token, "
                    f"got {pair}"
                )
        return torch.tensor([row_of[pair] for pair in pairs], dtype=torch.int64)


def are_sequences(probs: object) -> bool:
    """True for a list of arrays ``[length, classes]``, or their padded array of 3 dimensions."""
    if isinstance(probs, list | tuple):
        return any(np.ndim(each) == 2 for each in probs)
    return getattr(probs, "ndim", 0) == 3


def join(probs: Any, labels: Any, name: str = "probs") -> JoinedTokens:
    """Return the tokens that have a label; refuse sentences that do not fit their labels."""
    if len(labels) != len(probs):
        raise InvalidValueError(
            f"`labels` must be one sequence for each of {len(probs)} sentences, got {len(labels)}"
        )
    rows, given, places = [], [], []
    classes = next((np.shape(each)[1] for each in probs if np.ndim(each) == 2), 0)
    for sentence, (of_sentence, tags) in enumerate(zip(probs, labels, strict=True)):
        array, observed = as_array(of_sentence), as_array(tags)
        if array.shape == (0,):  # a sentence of no tokens, given as []
            array = array.reshape(0, classes)
        if array.ndim != 2 or array.shape[1] != classes:
            raise InvalidValueError(
                f"`{name}` must have shape [tokens, {classes}] for each sentence, as for the "
                f"first; sentence {sentence} has {list(array.shape)}"
            )
        if observed.shape != (len(array),):
            raise InvalidValueError(
                f"sentence {sentence} has {len(array)} tokens in `{name}` and labels of shape "
                f"{list(observed.shape)}: pass one label per token, {IGNORED} for none"
            )
        if len(array) and observed.dtype.kind not in "iu":
            raise InvalidTypeError(
                f"`labels` must be whole numbers; those of sentence {sentence} are {observed.dtype}"
            )
        kept = np.flatnonzero(observed != IGNORED)
        rows.append(array[kept])
        given.append(observed[kept].astype(np.int64))
        places.append(np.stack([np.full(len(kept), sentence), kept], 1))
    if not any(map(len, given)):
        raise InvalidValueError(f"no token has a label: all `labels` are {IGNORED}")
    return JoinedTokens(
        torch.from_numpy(np.concatenate(rows)),
        torch.from_numpy(np.concatenate(given)),
        torch.from_numpy(np.concatenate(places)),
        len(rows),
    )
