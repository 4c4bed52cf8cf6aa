"""Summaries of data sets, for people and for programs."""

from pydantic import BaseModel, ConfigDict

from noisebound.data.column_types import ColumnType
from noisebound.data.dataset import Dataset, Splits
from noisebound.data.loader import Normalization
from noisebound.data.rows import SparseRows


class PartSummary(BaseModel):
    """Summary of the training or of the test examples; ``shape`` is that of one example.

    The imbalance is the largest class count divided by the smallest, unless that is zero. The noise
    rate is the share of wrong labels, if the true labels are known.
    """

    model_config = ConfigDict(frozen=True)
    examples: int
    shape: tuple[int, ...]
    dtype: str
    class_counts: dict[str, int]
    imbalance: float | None
    noise_rate: float | None


class DataSummary(BaseModel):
    """Summary of a data set.

    Mean and standard deviation are those of the training inputs, per channel or feature, and empty
    for sparse features. ``columns`` has the type of each used column of a table, and ``notes`` say
    what reading left out or changed.
    """

    model_config = ConfigDict(frozen=True)
    name: str
    source: str
    classes: int
    train: PartSummary
    test: PartSummary | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: dict[str, ColumnType]
    notes: tuple[str, ...]


def summarize(splits: Splits) -> DataSummary:
    """Return the summary of a data set."""
    is_sparse = isinstance(splits.train.inputs, SparseRows)
    normalization = Normalization.identity() if is_sparse else Normalization.of(splits.train.rows)
    return DataSummary(
        name=splits.name,
        source=splits.source,
        classes=splits.train.num_classes,
        train=_summarize_part(splits.train),
        test=_summarize_part(splits.test) if splits.test else None,
        mean=normalization.mean,
        std=normalization.std,
        columns={} if splits.encoder is None else splits.encoder.types,
        notes=splits.notes,
    )


def _summarize_part(data: Dataset) -> PartSummary:
    counts = data.class_counts()
    is_wrong = None if data.true_labels is None else data.true_labels != data.labels
    return PartSummary(
        examples=len(data),
        shape=tuple(data.inputs.shape[1:]),
        dtype=str(data.inputs.dtype).removeprefix("torch."),
        class_counts=dict(zip(data.class_names, counts.tolist(), strict=True)),
        imbalance=(counts.max() / counts.min()).item() if counts.min() > 0 else None,
        noise_rate=None if is_wrong is None else is_wrong.double().mean().item(),
    )
