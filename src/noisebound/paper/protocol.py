"""The columns and rows of the paper's tables, with the paper's accuracies and offsets.

``data/columns.csv`` has a line per column; ``data/accuracies.csv`` and
``data/optimal_bound_offsets.csv`` have the paper's results. The rows are losses of the catalog.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict

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
    """A data set with noisy labels, and the accuracies evaluated on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # on the command line
    title: str  # in tables and pages
    table: TableName
    dataset: str
    num_classes: int
    modality: Modality  # which determines the backbone
    noise: NoiseKind | None  # that `noisebound.corrupt` adds
    noise_rate: float  # the probability that a label is wrong, given to the methods
    bound_classes: int | None  # c in the noise-bound; by default the number of classes
    metrics: Annotated[tuple[Metric, ...], BeforeValidator(str.split)]
    offset_range: float  # B* is searched up to this distance from the noise-bound
    paper_dataset: str | None  # the names in the paper
    paper_noise: str | None

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
    def swept_rates(self) -> tuple[float, ...]:
        """The noise rates given to methods in a sweep, including the true one."""
        return tuple(sorted({*_SWEPT_RATES, self.noise_rate}))


def read_data(name: str) -> bytes:
    """Return the content of a file in ``paper/data``."""
    return files("noisebound.paper").joinpath("data", name).read_bytes()


def _rows(name: str) -> list[dict[str, Any]]:
    return pl.read_csv(read_data(name)).to_dicts()


COLUMNS = {row["name"]: Column.model_validate(row) for row in _rows("columns.csv")}


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
    return _SCORES.get((*_place(column, label_of(method)), metric))


def paper_offset(column: Column, method: str) -> float | None:
    """Return the offset of the paper's best bound; positive offsets are above the noise-bound.

    The paper's caption says the opposite, but its text and colors agree with this sign.
    """
    return _OFFSETS.get(_place(column, LossName.parse(method).spec.label))


def _place(column: Column, label: str) -> tuple[Any, ...]:
    return label, column.paper_dataset, column.paper_noise, column.noise_rate


_PLACE = ("loss", "dataset", "noise", "noise_rate")
_OFFSETS: dict[tuple[Any, ...], float] = {
    tuple(row[name] for name in _PLACE): row["offset"] for row in _rows("optimal_bound_offsets.csv")
}
_SCORES: dict[tuple[Any, ...], PaperScore] = {
    tuple(row[name] for name in (*_PLACE, "metric")): PaperScore(
        row["accuracy_percent"], row["std"]
    )
    for row in reversed(_rows("accuracies.csv"))  # of duplicates, the first counts
}
# The paper swaps the two accuracies of FCE on TinyImageNet 0.4.
_TOP1, _TOP5 = (("FCE", "TinyImageNet", "symmetric", 0.4, metric) for metric in ("top1", "top5"))
_SCORES[_TOP1], _SCORES[_TOP5] = _SCORES[_TOP5], _SCORES[_TOP1]
