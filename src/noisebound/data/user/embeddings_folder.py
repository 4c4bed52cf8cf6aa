"""A folder of embeddings, as ``noisebound embed`` writes it: vectors, labels, and their origin."""

from pathlib import Path

import polars as pl
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from noisebound.data.dataset import Dataset, EmbeddedBy, Splits
from noisebound.data.formats.embeddings import EmbeddingStore
from noisebound.data.reading import reading
from noisebound.data.rows import held
from noisebound.errors import DataError
from noisebound.system.files import write_text, written_whole

_RECORD = "embeddings.json"


class PartRecord(BaseModel):
    """What is known of the training or the test examples.

    Attributes:
        key: hash of the examples and the backbone
        count: the number of examples, those that cannot be read included
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: str
    count: int


class EmbeddingsRecord(BaseModel):
    """What a folder of embeddings holds; it is written last, when everything else is there.

    Attributes:
        format: the version of this record
        name: the data set's name
        source: the place that the data came from
        backbone: what made the embeddings
        class_names: the name of each class
        train: the examples to train on
        test: the examples to evaluate on; None if there are none
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int = 1
    name: str
    source: str
    backbone: EmbeddedBy
    class_names: tuple[str, ...]
    train: PartRecord
    test: PartRecord | None = None


def holds_embeddings(path: Path) -> bool:
    """True if this is a folder that ``noisebound embed`` has finished."""
    return (path / _RECORD).is_file()


def vectors_path(folder: Path, part: str) -> Path:
    """Return the file of the vectors of ``"train"`` or ``"test"``."""
    return folder / f"{part}.safetensors"


def write_labels(
    folder: Path,
    part: str,
    labels: Tensor,
    true_labels: Tensor | None,
    names: tuple[str, ...] | None,
) -> None:
    """Write a table of the examples: their names and labels, one row each."""
    columns = {
        "example": names or [str(place) for place in range(len(labels))],
        "label": labels.tolist(),
        "true_label": None if true_labels is None else true_labels.tolist(),
    }
    frame = pl.DataFrame({name: column for name, column in columns.items() if column is not None})
    with written_whole(folder / f"{part}.parquet") as path:
        frame.write_parquet(path)


def write_record(folder: Path, record: EmbeddingsRecord) -> None:
    """Write the record, which makes the folder a data source."""
    write_text(folder / _RECORD, record.model_dump_json(indent=2) + "\n")


def read_record(folder: Path) -> EmbeddingsRecord:
    """Return the record, or an error that names its file."""
    path = folder / _RECORD
    try:
        return EmbeddingsRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: embed again into another folder") from error


def read_embeddings(folder: Path) -> Splits:
    """Return the data set that a folder of embeddings holds; of many, the vectors stay mapped."""
    record = read_record(folder)
    train, names = _part(folder, "train", record.train, record.class_names)
    test = None
    if record.test is not None:
        test, _ = _part(folder, "test", record.test, record.class_names)
    return Splits(
        record.name,
        train,
        test,
        str(folder),
        train_names=names,
        embedded_by=record.backbone,
    )


def _part(
    folder: Path, name: str, about: PartRecord, class_names: tuple[str, ...]
) -> tuple[Dataset, tuple[str, ...]]:
    path = vectors_path(folder, name)
    found = EmbeddingStore(path, about.key, about.count).read()
    if found is None:
        raise DataError(f"{path} is missing, or is of other data than {folder / _RECORD} says")
    table = folder / f"{name}.parquet"
    with reading(table, remedy="embed again into another folder"):
        frame = pl.read_parquet(table)[found.kept.numpy()]
        labels = torch.from_numpy(frame["label"].to_numpy().copy()).long()
        has_truth = "true_label" in frame.columns
        truth = (
            torch.from_numpy(frame["true_label"].to_numpy().copy()).long() if has_truth else None
        )
        names = tuple(frame["example"].to_list())
    return Dataset(held(found.vectors), labels, class_names, truth), names
