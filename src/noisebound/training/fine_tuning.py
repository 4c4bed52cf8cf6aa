"""Fine-tuning: an encoder and its head are trained together, on raw examples."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int32, Int64, Shaped
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from noisebound.data import Normalization
from noisebound.data.images import done_ahead
from noisebound.data.rows import JoinedRows, Rows
from noisebound.errors import InvalidValueError
from noisebound.features import Backbone, Examples, NetworkBackbone, Texts
from noisebound.features.backbone import hash_of_weights, padded, usual_device
from noisebound.features.examples import Example, ExampleSplits, Modality
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData

_HEAD_EPOCHS = TrainingConfig().epochs
_TEXTS_AT_ONCE = 1000  # per call of the tokenizer: enough for full speed


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
        vectors = self.encoder(inputs[:, self.columns_beside :])
        if self.columns_beside:
            columns = inputs[:, : self.columns_beside].contiguous().view(torch.float32)
            vectors = torch.cat([vectors, columns.to(vectors.dtype)], dim=1)
        logits: Tensor = self.head(vectors * self.scale + self.shift)
        return logits

    def train(self, mode: bool = True) -> "FineTuned":
        super().train(mode)
        for layer in self.encoder.modules():
            if isinstance(layer, _BatchNorm):
                layer.eval()
        return self


@dataclass(frozen=True, eq=False)
class Unfrozen:
    """The encoder, which is trained in place, and the raw examples of a fine-tuning."""

    encoder: nn.Module
    train: Rows  # with the validation split
    test: Rows | None
    columns_beside: int  # beside each text
    examples_at_once: int  # in the encoder

    @classmethod
    def of(cls, splits: ExampleSplits, backbone: NetworkBackbone) -> "Unfrozen":
        """Return the raw examples behind a training on embeddings, with the columns beside them."""
        examples, columns = splits.examples, _columns(splits.train.rows)
        train = encoder_inputs(backbone, examples["train"], columns)
        test = None
        if splits.test is not None:
            beside = _columns(splits.test.rows)
            test = encoder_inputs(backbone, examples["test"], beside)
        count = 0 if columns is None else columns.shape[1]
        encoder = backbone.trainable_copy(examples["train"].modality)
        _freeze_unused(encoder, train.dense(torch.tensor([0]))[:, count:])
        return cls(encoder, train, test, count, backbone.batch_size)

    def data(self, frozen: TrainingData) -> TrainingData:
        """Return the same examples with their raw inputs; a recipe may have left some out."""
        assert frozen.positions is not None
        validation, test, at = frozen.validation, frozen.test, frozen.validation_positions
        if validation is not None and at is not None:
            validation = replace(validation, inputs=self.train.select(at))
        if test is not None and self.test is not None:
            test = replace(test, inputs=self.test)
        return replace(
            frozen,
            train=replace(frozen.train, inputs=self.train.select(frozen.positions)),
            validation=validation,
            test=test,
            normalization=Normalization.identity(),
        )

    def network(self, head: nn.Module, normalization: Normalization) -> FineTuned:
        """Return encoder and head as one network, which starts like training on embeddings."""
        mean, std = torch.tensor([normalization.mean, normalization.std], dtype=torch.float64)
        return FineTuned(
            self.encoder,
            head,
            (1 / std).float(),
            (-mean / std).float(),
            columns_beside=self.columns_beside,
            examples_at_once=self.examples_at_once,
        )

    def check_mixing(self, mixes: bool) -> None:
        if mixes and not self.train.dtype.is_floating_point:
            raise InvalidValueError(
                "mixup blends its inputs, and texts cannot be blended while their encoder is "
                "trained: choose another `loss` or `recipe`, or leave `unfreeze` out"
            )


def frozen_config(config: TrainingConfig) -> TrainingConfig:
    """Return the config of heads on the frozen embeddings, which estimate the noise.

    A head is cheap and starts from scratch, so it trains for at least the default number of epochs.
    """
    return config.model_copy(
        update={
            "unfreeze": False,
            "warmup_epochs": None,
            "augment": False,
            "accumulate": 1,
            "epochs": max(config.epochs, _HEAD_EPOCHS),
        }
    )


def check_unfreeze(backbone: Backbone | None) -> NetworkBackbone:
    """Return the backbone, or refuse to train a missing encoder or one without gradients."""
    if backbone is None:
        raise InvalidValueError(
            "`unfreeze` trains the encoder of a `backbone` on raw images or texts: name the "
            "`backbone`, or leave it out"
        )
    if not isinstance(backbone, NetworkBackbone) or not backbone.is_trainable:
        raise InvalidValueError(
            f"`unfreeze` cannot train {backbone.name}, which has no gradients: leave it out, or "
            "choose a `backbone` of the kinds hf, package or timm, or an nn.Module"
        )
    return backbone


def _columns(rows: Rows) -> Rows | None:
    return rows.right if isinstance(rows, JoinedRows) else None


def _freeze_unused(network: nn.Module, inputs: Tensor) -> None:
    """Freeze weights that the vectors do not depend on, such as an unused pooling layer.

    They get no gradient, for which several ranks would wait forever. Any batch will do.
    """
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    with torch.enable_grad():
        total = network(inputs).sum()
        found = torch.autograd.grad(total, weights, allow_unused=True) if weights else ()
    for weight, gradient in zip(weights, found, strict=True):
        weight.requires_grad_(gradient is not None)


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
