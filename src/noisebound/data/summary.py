"""What a data set is made of, to be read by people or by programs."""

from pydantic import BaseModel, ConfigDict

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.normalization import Normalization


class PartSummary(BaseModel):
    """The training or the test examples."""

    model_config = ConfigDict(frozen=True)
    examples: int
    shape: tuple[int, ...]
    dtype: str
    class_counts: dict[str, int]
    imbalance: float | None
    noise_rate: float | None


class DataSummary(BaseModel):
    """A data set as loaded."""

    model_config = ConfigDict(frozen=True)
    name: str
    source: str
    classes: int
    train: PartSummary
    test: PartSummary | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...]


def summarize(splits: Splits) -> DataSummary:
    """Counts, shapes, classes, balance, the constants of normalization, and where it came from."""
    normalization = Normalization.of(splits.train.dense_inputs)
    return DataSummary(
        name=splits.name,
        source=splits.source,
        classes=splits.train.num_classes,
        train=_summarize_part(splits.train),
        test=_summarize_part(splits.test) if splits.test else None,
        mean=normalization.mean,
        std=normalization.std,
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
