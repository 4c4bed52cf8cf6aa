"""Fine-tuning: the raw examples and the encoder that take the place of frozen embeddings."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from noisebound.data import Normalization
from noisebound.data.rows import JoinedRows, Rows
from noisebound.errors import InvalidValueError
from noisebound.features import Backbone, NetworkBackbone
from noisebound.features.examples import ExampleSplits
from noisebound.features.tunable import encoder_inputs, freeze_unused
from noisebound.models.fine_tuned import FineTuned
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData

_HEAD_EPOCHS = TrainingConfig().epochs


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
        freeze_unused(encoder, train.dense(torch.tensor([0]))[:, count:])
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
        """Refuse to blend texts."""
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
