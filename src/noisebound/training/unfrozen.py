"""Fine-tuning: the raw examples and the encoder that take the place of frozen embeddings."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from noisebound.data import Normalization
from noisebound.data.rows import JoinedRows, Rows
from noisebound.errors import InvalidValueError
from noisebound.features import Backbone
from noisebound.features.load import EmbeddedSplits
from noisebound.models.fine_tuned import FineTuned
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData

_HEAD_EPOCHS = TrainingConfig().epochs


@dataclass(frozen=True, eq=False)
class Unfrozen:
    """The encoder and the raw examples of a fine-tuning.

    Args:
        encoder: from a batch of prepared examples to vectors; it is trained in place
        train: the inputs of all training examples, those of validation included
        validation: the positions of the validation split
        test: the inputs of the test examples
        columns_beside: how many columns stand beside each text
        examples_at_once: how many examples go through the encoder at once
    """

    encoder: nn.Module
    train: Rows
    validation: Int64[Tensor, " m"] | None
    test: Rows | None
    columns_beside: int
    examples_at_once: int

    @classmethod
    def of(cls, splits: EmbeddedSplits, data: TrainingData, backbone: Backbone) -> "Unfrozen":
        """Return the raw examples behind a training on embeddings.

        Args:
            splits: the embeddings, with the columns beside them as the training encodes them
            data: how the examples are divided
            backbone: the source of the embeddings
        """
        raw, tunable = splits.raw, backbone.tunable(splits.raw.train.examples.modality)
        columns = _columns(splits.train.rows)
        train = tunable.rows(raw.train.examples, splits.kept, columns)
        test = None
        if raw.test is not None and splits.test is not None and splits.test_kept is not None:
            beside = _columns(splits.test.rows)
            test = tunable.rows(raw.test.examples, splits.test_kept, beside)
        count = 0 if columns is None else columns.shape[1]
        tunable.freeze_unused(train.dense(torch.tensor([0]))[:, count:])
        at = data.validation_positions
        return cls(tunable.network, train, at, test, count, backbone.batch_size)

    def data(self, frozen: TrainingData) -> TrainingData:
        """Return the same examples with their raw inputs.

        Args:
            frozen: the embeddings, of which a recipe may have left some out
        """
        assert frozen.positions is not None
        validation, test = frozen.validation, frozen.test
        if validation is not None and self.validation is not None:
            validation = replace(validation, inputs=self.train.select(self.validation))
        if test is not None and self.test is not None:
            test = replace(test, inputs=self.test)
        return TrainingData(
            replace(frozen.train, inputs=self.train.select(frozen.positions)),
            validation,
            test,
            Normalization.identity(),
            frozen.positions,
        )

    def network(self, head: nn.Module, normalization: Normalization) -> FineTuned:
        """Return the encoder and the head as one network, which begins where frozen training does.

        Args:
            head: the network on embeddings
            normalization: of the frozen embeddings
        """
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
    """Return how heads on the frozen embeddings are trained, to learn of the noise.

    A head is cheap and begins from nothing, so that it trains for the usual number of epochs even
    where the encoder takes a few.
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


def check_unfreeze(backbone: Backbone | None) -> Backbone:
    """Return the backbone, or refuse to train a missing encoder or one without gradients."""
    if backbone is None:
        raise InvalidValueError(
            "`unfreeze` trains the encoder of a `backbone` on raw images or texts: name the "
            "`backbone`, or leave it out"
        )
    backbone.check_tunable()
    return backbone


def _columns(rows: Rows) -> Rows | None:
    return rows.right if isinstance(rows, JoinedRows) else None
