"""Pooling: from the outputs of a transformer to one vector per example."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from noisebound.errors import DataError

PoolingName: TypeAlias = Literal["cls", "mean", "max", "last", "pooler", "features"]
POOLING_NAMES: tuple[PoolingName, ...] = get_args(PoolingName)

_WORDS: dict[PoolingName, str] = {
    "cls": "the vector of its first token",
    "mean": "the mean of its token vectors",
    "max": "the largest value of each number over its tokens",
    "last": "the vector of its last token",
    "pooler": "the network's own pooling",
    "features": "the network's own projection",
}
_SENTENCE_TRANSFORMERS: dict[str, PoolingName] = {
    "cls_token": "cls",
    "mean_tokens": "mean",
    "max_tokens": "max",
    "lasttoken": "last",
    **{name: name for name in POOLING_NAMES[:3]},  # newer files
}


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one.

    Args:
        name: the kind of pooling
        is_normalized: True to scale the vector to length one
        reason: why it was chosen, for the log
    """

    name: PoolingName
    is_normalized: bool
    reason: str

    def __str__(self) -> str:
        scaled = ", scaled to length one" if self.is_normalized else ""
        return f"{_WORDS[self.name]}{scaled} ({self.reason})"

    def tokens(
        self, hidden: Float[Tensor, "batch tokens d"], mask: Int64[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch d"]:
        """Return one vector per example, padding left out."""
        if self.name == "cls":
            return hidden[:, 0]
        if self.name == "last":
            places = torch.arange(mask.shape[1], device=mask.device)
            last = (mask * places).argmax(1)
            return hidden[torch.arange(len(hidden), device=mask.device), last]
        weights = mask[..., None].to(hidden.dtype)
        if self.name == "max":
            return hidden.masked_fill(weights == 0, float("-inf")).amax(1)
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def sentence_pooling(folder: Path) -> Pooling | None:
    """Return the pooling that a sentence-transformers folder configures."""
    path = folder / "modules.json"
    if not path.exists():
        return None
    name: PoolingName = "mean"
    is_normalized = False
    for module in read_json(path):
        kind = str(module["type"]).rpartition(".")[2]
        if kind == "Pooling":
            name = _pooling_name(folder / module["path"] / "config.json")
        elif kind == "Normalize":
            is_normalized = True
        elif kind != "Transformer":
            raise DataError(
                f"{path} has a module {kind}, which is not known here; known are Transformer, "
                "Pooling and Normalize: choose another `backbone`"
            )
    return Pooling(name, is_normalized, "as its sentence-transformers config says")


def _pooling_name(path: Path) -> PoolingName:
    config, prefix = read_json(path), "pooling_mode"
    asked = [
        name.removeprefix(f"{prefix}_") for name, on in config.items() if on and prefix in name
    ]
    if isinstance(config.get(prefix), str):  # newer files name the mode
        asked = [config[prefix]]
    if len(asked) != 1 or asked[0] not in _SENTENCE_TRANSFORMERS:
        raise DataError(
            f"{path} asks for {', '.join(asked) or 'no pooling'}; known are "
            f"{', '.join(_SENTENCE_TRANSFORMERS)}: choose another `backbone`"
        )
    return _SENTENCE_TRANSFORMERS[asked[0]]


def read_json(path: Path) -> Any:
    """Return a JSON file's content, or an error that names the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing: the model folder is incomplete") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: {error}; fetch the model again") from error


class PooledEncoder(nn.Module):
    """A transformer with its pooling, from tokens or pixels to vectors.

    Args:
        network: the transformer
        pooling: how token vectors become one
        padding: the token that fills short texts (None: an encoder of images)
    """

    def __init__(self, network: nn.Module, pooling: Pooling, padding: int | None) -> None:
        super().__init__()
        self.network, self.pooling, self.padding = network, pooling, padding

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch dimension"]:
        """Return one vector per example.

        Args:
            inputs: pixels as the processor returns them; or tokens, negative after a text's end
        """
        is_text, mask = self.padding is not None, None
        given = {"pixel_values": inputs}
        if self.padding is not None:
            is_token = inputs >= 0
            longest = int(is_token.sum(1).max())  # a part of a batch may be shorter than the batch
            is_token, inputs = is_token[:, :longest], inputs[:, :longest]
            mask = is_token.long()
            ids = inputs.long().masked_fill(~is_token, self.padding)
            given = {"input_ids": ids, "attention_mask": mask}
        if self.pooling.name == "features":
            project = getattr(self.network, f"get_{'text' if is_text else 'image'}_features")
            found = project(**given)
            # Newer versions of transformers wrap the vectors.
            vectors = found if isinstance(found, Tensor) else found.pooler_output
        elif self.pooling.name == "pooler":
            vectors = self.network(**given).pooler_output.flatten(1)
        else:
            hidden = self.network(**given).last_hidden_state
            if hidden.ndim == 4:  # maps, channels first
                hidden = hidden.flatten(2).transpose(1, 2)
            if mask is None:
                mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
            vectors = self.pooling.tokens(hidden, mask)
        return torch.nn.functional.normalize(vectors) if self.pooling.is_normalized else vectors
