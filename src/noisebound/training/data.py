"""The splits of a training, and how validation is taken from the training examples."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.data import Dataset, Normalization, Splits
from noisebound.data.dataset import stratified_indices
from noisebound.data.groups import with_their_groups
from noisebound.data.rows import JoinedRows, SparseRows
from noisebound.errors import InvalidValueError
from noisebound.estimation import Checked
from noisebound.training.config import TrainingConfig

# Encoders have dead dimensions, whose deviation is that of rounding. Scaled to one, they would
# move by thousands of deviations in the first step of fine-tuning. The share is a heuristic.
_DEAD = 1e-4
_UNUSED = 1e-6  # the scale of embeddings that do not help: no weight makes anything of it


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The splits, and the normalization of the inputs."""

    train: Dataset
    validation: Dataset | None  # whose labels are noisy too
    test: Dataset | None  # with clean labels, which decide nothing
    normalization: Normalization  # by the statistics of the training split
    positions: Int64[Tensor, " n"] | None = None  # of `train` among all examples; all by default
    checked: Checked | None = None  # the labels of `train` that a person has checked
    validation_positions: Int64[Tensor, " m"] | None = None  # among all examples

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
        return self if weights is None else self._weighted(weights[self.train.labels])

    def with_checked_weight(self, weight: float) -> "TrainingData":
        """Return the same, with the weights of checked labels multiplied by ``weight``."""
        if self.checked is None or weight == 1:
            return self
        return self._weighted(torch.where(self.checked.is_trusted, weight, 1.0))

    def _weighted(self, factors: Float[Tensor, " n"]) -> "TrainingData":
        given = self.train.weights
        weights = (factors if given is None else given * factors).to(torch.float32)
        return replace(self, train=replace(self.train, weights=weights))


def normalization_of(train: Dataset, splits: Splits | None = None) -> Normalization:
    """Return the normalization of inputs; the identity for sparse ones and for encoded tables.

    Beside embeddings, which are scaled, the columns of a table are left as their encoder gives
    them. The dimensions of embeddings share one unit, so that those that hardly vary are only
    shifted; the columns of other data have a unit each.
    """
    encoder = None if splits is None else splits.encoder
    if isinstance(train.inputs, JoinedRows):
        scale = 1.0 if encoder is None else encoder.text_scale
        vectors = Normalization.of(train.inputs.left, train.weights, least_deviation=_DEAD)
        others = train.inputs.right.shape[1]
        std = (each / max(scale, _UNUSED) for each in vectors.std)
        return Normalization((*vectors.mean, *(0.0,) * others), (*std, *(1.0,) * others))
    if encoder is not None or isinstance(train.inputs, SparseRows):
        return Normalization.identity()
    is_embedded = splits is not None and splits.embedded_by is not None
    least = _DEAD if is_embedded else 0.0
    return Normalization.of(train.rows, train.weights, least_deviation=least)


def split_validation(
    splits: Splits, config: TrainingConfig, is_decided: Bool[Tensor, " n"] | None = None
) -> tuple[TrainingData, Splits]:
    """Return the splits of a training, and the data as its encoder sees it.

    Duplicates stay on one side, unless the data has groups. A table is encoded again, so that its
    statistics are those of the training part alone. It is not scaled a second time.
    """
    splits = splits.with_duplicates_together()
    is_validation = validation_mask(splits.train, config, is_decided)
    # Frozen embeddings are no evidence of what an encoder learns that is fine-tuned.
    splits = splits.encoded_by(~is_validation, weigh=not config.unfreeze)
    validation, train, at = None, splits.train, None
    if is_validation.any():
        validation, train = splits.train.subset(is_validation), splits.train.subset(~is_validation)
        at = is_validation.nonzero().squeeze(1)
    data = TrainingData(
        train,
        validation,
        splits.test,
        normalization_of(train, splits),
        positions=(~is_validation).nonzero().squeeze(1),
        validation_positions=at,
    )
    return data, splits


def validation_mask(
    whole: Dataset, config: TrainingConfig, is_decided: Bool[Tensor, " n"] | None = None
) -> Bool[Tensor, " n"]:
    """Return which of the training examples the validation split keeps.

    The split has its share of each class, by the labels as given. An example that a person has
    decided about leaves the split, with its group, and is not replaced: every checked label is
    trained on, and what remains is a part of the split of a run without decisions, so that both
    runs can be compared.
    """
    count = round(config.validation_share * len(whole))
    is_validation = torch.zeros(len(whole), dtype=torch.bool)
    if count:
        chosen = stratified_indices(whole.labels, count, config.seed, whole.groups)
        is_validation[chosen] = True
        # The only example of its class stays, and so does its group.
        is_only = whole.class_counts()[whole.labels] == 1
        is_validation &= ~with_their_groups(is_only, whole.groups)
        if is_validation.all():
            raise InvalidValueError(
                f"validation would take {count} of {len(whole)} examples, which leaves none to "
                "train on: lower `validation_share`"
            )
    if is_decided is None:
        return is_validation
    return is_validation & ~with_their_groups(is_decided, whole.groups)
