"""The columns of the paper's tables: a data set and the noise in its labels.

The columns themselves are data: ``data/columns.csv`` has one line for each.
"""

import csv
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, model_validator

from noisebound.corruption import NoiseKind
from noisebound.errors import InvalidValueError

TableName: TypeAlias = Literal["table1", "table2", "open-set", "own", "beyond", "pretrained"]
Metric: TypeAlias = Literal["top1", "top5"]
Modality: TypeAlias = Literal["image", "text"]

TABLE_TITLES: dict[str, str] = {
    "table1": "Table 1",
    "table2": "Table 2",
    "open-set": "TinyImageNet and Animals-10N",
    "own": "Other columns",
    "beyond": "Beyond the paper",
    "pretrained": "On embeddings",
}
_OF_BENCHMARKS = ("beyond", "pretrained")  # named one by one, or by the scripts in benchmarks/


class Column(BaseModel):
    """A data set with noisy labels, and the accuracies evaluated on it.

    Attributes:
        name: the name on the command line
        title: the name in tables and pages
        table: the paper's table; ``own``, ``beyond`` or ``pretrained`` for columns of ours
        dataset: the name of a published data set
        num_classes: the number of its classes
        modality: the kind of its examples, which decides the backbone that embeds them
        noise: the kind of noise that `noisebound.corrupt` adds; None to keep the labels
        noise_rate: the probability that a label is wrong, given to the methods
        bound_classes: c in the noise-bound; by default the number of classes
        metrics: the accuracies shown: top-1, or top-1 and top-5
        offset_range: how far below and above the noise-bound B* is searched
        paper_dataset: the paper's name of the data set; None if the paper does not have it
        paper_noise: the paper's name of the noise
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    table: TableName
    dataset: str
    num_classes: int
    modality: Modality = "image"
    noise: NoiseKind | None = None
    noise_rate: float
    bound_classes: int | None = None
    metrics: tuple[Metric, ...] = ("top1",)
    offset_range: float = 0.2
    paper_dataset: str | None = None
    paper_noise: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_line(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Leave out empty fields, and split the metrics, of a line of the CSV file."""
        given = {name: value for name, value in fields.items() if value != ""}
        if isinstance(given.get("metrics"), str):
            given["metrics"] = tuple(given["metrics"].split())
        return given


def read_data(name: str) -> list[dict[str, str]]:
    """Return the lines of a CSV file of this package."""
    text = files("noisebound.paper").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


COLUMNS = {line["name"]: Column.model_validate(line) for line in read_data("columns.csv")}


def columns_of(table: TableName) -> tuple[Column, ...]:
    """Return the columns of a table."""
    return tuple(column for column in COLUMNS.values() if column.table == table)


def find_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns with these names; a data set's name means all its usual columns."""
    if not names:
        raise InvalidValueError("name at least one column")
    usual = [column for column in COLUMNS.values() if column.table not in _OF_BENCHMARKS]
    found = []
    for name in names:
        of_dataset = [column for column in usual if column.dataset == name.lower()]
        matching = [COLUMNS[name.lower()]] if name.lower() in COLUMNS else of_dataset
        if not matching:
            raise InvalidValueError(f"unknown column {name!r}: choose from {', '.join(COLUMNS)}")
        found += matching
    return tuple(dict.fromkeys(found))
