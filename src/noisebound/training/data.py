"""The splits of a training, and how validation is taken from the training examples."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.data import Dataset, Normalization, Splits
from noisebound.data.dataset import stratified_indices
from noisebound.data.rows import JoinedRows
from noisebound.data.sparse_rows import SparseRows
from noisebound.errors import InvalidValueError
from noisebound.estimation import Checked
from noisebound.training.config import TrainingConfig

# Encoders have dead dimensions, whose deviation is that of rounding. Scaled to one, they would
# move by thousands of deviations in the first step of fine-tuning. The share is a heuristic.
_DEAD = 1e-4


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training, noisy-validation and clean-test splits, with the input normalization.

    Args:
        train: the examples to train on
        validation: the validation split, whose labels are noisy too
        test: examples with clean labels, which decide nothing
        normalization: of the inputs, by the statistics of `train` alone
        positions: the training examples' positions among all examples; by default all are used
        checked: which labels of `train` a person has checked
        validation_positions: the positions of `validation` among all examples
    """

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    normalization: Normalization
    positions: Int64[Tensor, " n"] | None = None
    checked: Checked | None = None
    validation_positions: Int64[Tensor, " m"] | None = None

    @classmethod
    def unsplit(cls, train: Dataset) -> "TrainingData":
        """Return data without validation or test."""
        return cls(train, None, None, normalization_of(train))

    def subset(self, kept: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "TrainingData":
        """Return the same with some of the training examples."""
        whole = torch.arange(len(self.train)) if self.positions is None else self.positions
        return replace(
            self,
            train=self.train.subset(kept),
            positions=whole[kept],
            checked=None if self.checked is None else self.checked.subset(kept),
        )

    def with_class_weights(self, weights: Float64[Tensor, " classes"] | None) -> "TrainingData":
        """Return the same, with each training example also weighted by the class of its label."""
        if weights is None:
            return self
        own = 1.0 if self.train.weights is None else self.train.weights
        weighted = (own * weights[self.train.labels]).to(torch.float32)
        return replace(self, train=replace(self.train, weights=weighted))

    def with_checked_weight(self, weight: float) -> "TrainingData":
        """Return the same, with the weights of checked labels multiplied by ``weight``."""
        if self.checked is None or weight == 1:
            return self
        own = torch.ones(len(self.train)) if self.train.weights is None else self.train.weights
        weights = torch.where(self.checked.is_trusted, weight * own, own)
        return replace(self, train=replace(self.train, weights=weights.to(torch.float32)))


def normalization_of(
    train: Dataset, *, is_encoded: bool = False, is_embedded: bool = False
) -> Normalization:
    """Return the normalization of inputs; the identity for sparse ones and for encoded tables.

    Beside embeddings, which are scaled, the columns of a table are left as their encoder gives
    them. The dimensions of embeddings share one unit, so that those that hardly vary are dead and
    only shifted; the columns of other data have a unit each.

    Args:
        train: the training examples
        is_encoded: True if the inputs are a table as its encoder gives it
        is_embedded: True if the inputs are the embeddings of a backbone
    """
    if isinstance(train.inputs, JoinedRows):
        vectors = Normalization.of(train.inputs.left, train.weights, least_deviation=_DEAD)
        others = train.inputs.right.shape[1]
        return Normalization((*vectors.mean, *(0.0,) * others), (*vectors.std, *(1.0,) * others))
    if is_encoded or isinstance(train.inputs, SparseRows):
        return Normalization.identity()
    least = _DEAD if is_embedded else 0.0
    return Normalization.of(train.rows, train.weights, least_deviation=least)


def split_validation(
    splits: Splits, config: TrainingConfig, is_decided: Bool[Tensor, " n"] | None = None
) -> tuple[TrainingData, Splits]:
    """Return the splits of a training, and the data as its encoder sees it.

    A table is encoded again, so that its statistics are those of the training part alone. It is
    not scaled a second time.
    """
    is_validation = validation_mask(splits.train, config, is_decided)
    splits = splits.encoded_by(~is_validation)
    validation, train, at = None, splits.train, None
    if is_validation.any():
        validation, train = splits.train.subset(is_validation), splits.train.subset(~is_validation)
        at = is_validation.nonzero().squeeze(1)
    data = TrainingData(
        train,
        validation,
        splits.test,
        normalization_of(
            train,
            is_encoded=splits.encoder is not None,
            is_embedded=splits.embedded_by is not None,
        ),
        positions=(~is_validation).nonzero().squeeze(1),
        validation_positions=at,
    )
    return data, splits


def validation_mask(
    whole: Dataset, config: TrainingConfig, is_decided: Bool[Tensor, " n"] | None = None
) -> Bool[Tensor, " n"]:
    """Return which of the training examples the validation split keeps.

    The split has its share of each class, by the labels as given. An example that a person has
    decided about leaves the split and is not replaced: every checked label is trained on, and what
    remains is a part of the split of a run without decisions, so that both runs can be compared.
    """
    count = round(config.validation_share * len(whole))
    is_validation = torch.zeros(len(whole), dtype=torch.bool)
    if count:
        is_validation[stratified_indices(whole.labels, count, config.seed)] = True
        for index in whole.class_counts().eq(1).nonzero().flatten():
            is_validation[whole.labels == index] = False  # the only example of its class stays
        if is_validation.all():
            raise InvalidValueError(
                f"validation would take {count} of {len(whole)} examples, which leaves none to "
                "train on: lower `validation_share`"
            )
    return is_validation if is_decided is None else is_validation & ~is_decided
