"""An encoder as a network that can be trained, and as a backbone once it has been."""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn

from noisebound.data.rows import Rows
from noisebound.errors import DataError
from noisebound.features.backbone import Backbone
from noisebound.features.content import hash_of_weights
from noisebound.features.examples import Example, Examples, Modality, Texts
from noisebound.features.prepared_rows import PreparedRows, Tokenize, TokenRows, padded_tokens
from noisebound.features.text_counts import TextCounts


@dataclass(frozen=True, eq=False)
class Tunable:
    """An encoder that can be trained, and how examples become its inputs.

    Args:
        network: from a batch of inputs to vectors; a copy of the backbone's, which stays as it is
        prepare: makes the input of an image or a row of features
        tokenize: returns the tokens of texts; None if the examples are no texts
    """

    network: nn.Module
    prepare: Callable[[Example], Tensor]
    tokenize: Tokenize | None = None

    def rows(
        self, examples: Examples, positions: Int64[Tensor, " n"], beside: Rows | None = None
    ) -> Rows:
        """Return the inputs of some examples.

        Args:
            examples: all examples
            positions: those to use, in order
            beside: the columns beside each of them
        """
        if self.tokenize is None:
            return PreparedRows(examples, positions, self.prepare)
        assert isinstance(examples, Texts)
        return TokenRows.of(examples, positions, self.tokenize, beside)

    def batch(self, prepared: Sequence[Any]) -> Tensor:
        """Return the inputs of prepared examples, or of texts, as one tensor."""
        if self.tokenize is not None:
            return padded_tokens(self.tokenize(prepared))
        return torch.stack(list(prepared))

    def freeze_unused(self, inputs: Tensor) -> None:
        """Freeze the weights that vectors do not depend on, such as a pooling that is not used.

        They have no gradient, and several ranks would wait for it in vain.

        Args:
            inputs: a batch, such as that of one example
        """
        weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        with torch.enable_grad():
            total = self.network(inputs).sum()
            found = torch.autograd.grad(total, weights, allow_unused=True) if weights else ()
        for weight, gradient in zip(weights, found, strict=True):
            weight.requires_grad_(gradient is not None)


def trainable_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network, all of whose weights can be trained."""
    return copy.deepcopy(network).eval().requires_grad_(True)


class TunedBackbone(Backbone):
    """A backbone with the weights that fine-tuning gave it.

    Args:
        base: the backbone before that
        modality: the kind of examples that it was tuned on
        weights: of `Tunable.network`
    """

    def __init__(self, base: Backbone, modality: Modality, weights: Mapping[str, Tensor]) -> None:
        self.base, self.name, self.modalities = base, base.name, frozenset({modality})
        self.batch_size = base.batch_size
        self._tunable = base.tunable(modality)
        try:
            self._tunable.network.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights are not those of {base.name}: {error}") from error
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tunable.network.eval().to(device)
        self._device = torch.device(device)
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
        """Return the input of an example; a text as it is."""
        return example if isinstance(example, str) else self._tunable.prepare(example)

    @torch.no_grad()
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""
        inputs = self._tunable.batch(prepared).to(self._device)
        vectors: Float[Tensor, "batch dimension"] = self._tunable.network(inputs)
        return vectors.float().cpu()
