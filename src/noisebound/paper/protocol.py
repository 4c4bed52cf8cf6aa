"""The columns and rows of the paper's tables, with the paper's accuracies and offsets.

``data/columns.csv`` has a line per column; ``data/accuracies.csv`` and
``data/optimal_bound_offsets.csv`` have the paper's results. The rows are losses of the catalog.
"""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, model_validator

from noisebound.catalog import SPECS, LossName
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
_OF_BENCHMARKS = ("beyond", "pretrained")  # a data set's name does not include these columns

BASELINES = tuple(name for name, spec in SPECS.items() if spec.table_role == "baseline")
BOUNDED = tuple(name for name, spec in SPECS.items() if spec.table_role == "bounded")
"""The losses that the paper's tables show without and with their bound."""

METHODS = (*BASELINES, *(name + suffix for name in BOUNDED for suffix in ("", "+b")))
"""The rows of a table, in the paper's order."""

SEARCHED_METHODS = tuple(f"{name}+b*" for name in BOUNDED)
"""The rows whose bound is searched around the noise-bound: the paper's B*."""

_OFFSET_STEP = 0.05  # the paper's
_SWEPT_RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class Column(BaseModel):
    """A data set with noisy labels, and the accuracies evaluated on it.

    Attributes:
        name: the name on the command line
        title: the name in tables and pages
        table: the paper's table; ``own``, ``beyond`` or ``pretrained`` for our columns
        dataset: the name of a published data set
        num_classes: the number of its classes
        modality: the kind of its examples, which determines the backbone
        noise: the kind of noise that `noisebound.corrupt` adds
        noise_rate: the probability that a label is wrong, given to the methods
        bound_classes: c in the noise-bound; by default the number of classes
        metrics: the accuracies shown: top-1, or top-1 and top-5
        offset_range: B* is searched up to this distance from the noise-bound
        paper_dataset: the data set's name in the paper
        paper_noise: the noise's name in the paper
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
        """Drop the empty fields of a CSV line, and split its metrics."""
        given = {name: value for name, value in fields.items() if value != ""}
        if isinstance(given.get("metrics"), str):
            given["metrics"] = tuple(given["metrics"].split())
        return given

    @property
    def offsets(self) -> tuple[float, ...]:
        """The offsets from the noise-bound that are tried for B*.

        Example:
            >>> COLUMNS["mnist-0.4"].offsets
            (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15, 0.2)
        """
        count = round(self.offset_range / _OFFSET_STEP)
        return tuple(round(step * _OFFSET_STEP, 2) for step in range(-count, count + 1))

    @property
    def paper_place(self) -> tuple[str | None, str | None, float]:
        """The key of the paper's results: data set, noise and rate."""
        return self.paper_dataset, self.paper_noise, self.noise_rate

    @property
    def swept_rates(self) -> tuple[float, ...]:
        """The noise rates given to methods in a sweep, including the true one."""
        return tuple(sorted({*_SWEPT_RATES, self.noise_rate}))


def _read_data(name: str) -> list[dict[str, str]]:
    text = files("noisebound.paper").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


COLUMNS = {line["name"]: Column.model_validate(line) for line in _read_data("columns.csv")}


def columns_of(*tables: TableName) -> tuple[Column, ...]:
    """Return the columns of these tables."""
    return tuple(column for column in COLUMNS.values() if column.table in tables)


def find_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns with these names; a data set's name stands for its usual columns."""
    groups: dict[str, list[Column]] = {}
    for column in COLUMNS.values():
        if column.table not in _OF_BENCHMARKS:
            groups.setdefault(column.dataset, []).append(column)
    groups |= {name: [column] for name, column in COLUMNS.items()}
    chosen = choose(names, groups, "column", shown=COLUMNS)
    return tuple(dict.fromkeys(column for name in chosen for column in groups[name]))


def choose(
    names: Iterable[str], known: Iterable[str], kind: str, shown: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return the names in lower case, each once, or raise an error that lists the known ones."""
    found = tuple(dict.fromkeys(name.lower() for name in names))
    unknown = [name for name in found if name not in known]
    if unknown:
        raise InvalidValueError(
            f"unknown {kind} {unknown[0]!r}: choose from {', '.join(shown or known)}"
        )
    if not found:
        raise InvalidValueError(f"name at least one {kind}")
    return found


def label_of(method: str) -> str:
    """Return the name of a method in the paper's tables.

    Example:
        >>> label_of("sce+b*")
        'SCE+B*'
    """
    return LossName.parse(method).label


class PaperScore(NamedTuple):
    """An accuracy in percent, with its standard deviation over three seeds if published."""

    mean: float
    std: float | None


def paper_score(column: Column, method: str, metric: Metric) -> PaperScore | None:
    """Return the paper's accuracy of a method on a column, if published."""
    return _scores().get((label_of(method), *column.paper_place, metric))


def paper_offset(column: Column, method: str) -> float | None:
    """Return the offset of the paper's best bound; positive offsets are above the noise-bound.

    The paper's caption says the opposite, but its text and colors agree with this sign.
    """
    return _offsets().get((LossName.parse(method).spec.label, *column.paper_place))


@cache
def _offsets() -> dict[tuple[Any, ...], float]:
    return {_place(row): float(row["offset"]) for row in _read_data("optimal_bound_offsets.csv")}


@cache
def _scores() -> dict[tuple[Any, ...], PaperScore]:
    """Return the paper's accuracies by method, place and metric; of duplicates, the first."""
    scores = {
        (*_place(row), row["metric"]): PaperScore(
            float(row["accuracy_percent"]), float(row["std"]) if row["std"] else None
        )
        for row in reversed(_read_data("accuracies.csv"))
    }
    # The paper swaps the two accuracies of FCE on TinyImageNet 0.4.
    top1, top5 = (("FCE", "TinyImageNet", "symmetric", 0.4, metric) for metric in ("top1", "top5"))
    scores[top1], scores[top5] = scores[top5], scores[top1]
    return scores


def _place(row: dict[str, str]) -> tuple[str, str, str, float]:
    return row["loss"], row["dataset"], row["noise"], float(row["noise_rate"])
