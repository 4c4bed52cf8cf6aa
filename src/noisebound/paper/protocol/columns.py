"""The columns of the paper's tables: a data set and the noise in its labels."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from noisebound.corruption import NoiseKind
from noisebound.errors import InvalidValueError

TableName: TypeAlias = Literal["table1", "table2", "open-set", "own", "beyond", "pretrained"]
Metric: TypeAlias = Literal["top1", "top5"]
Modality: TypeAlias = Literal["image", "text"]

TEXT_SETS = ("noisy-ag-news",)
"""The data sets whose examples are texts."""

TABLE_TITLES: dict[str, str] = {
    "table1": "Table 1",
    "table2": "Table 2",
    "open-set": "TinyImageNet and Animals-10N",
    "own": "Other columns",
    "beyond": "Beyond the paper",
    "pretrained": "On embeddings",
}


class Column(BaseModel):
    """A data set with noisy labels, and what is evaluated on it.

    Attributes:
        name: the name on the command line
        title: the name in tables and pages
        table: the table of the paper that has this column; ``own``, ``beyond`` or ``pretrained`` if
            none has it
        dataset: the name of a published data set
        num_classes: the number of its classes
        modality: what its examples are, which decides the backbone that embeds them
        noise: the kind of noise that `noisebound.corrupt` puts into its labels; None to leave the
            labels as they are
        noise_rate: the probability that a label is wrong, which the methods are told
        bound_classes: c in the noise-bound, where it is not the number of classes
        metrics: which accuracies are shown: of the likeliest class, or of the likeliest five
        offset_range: how far below and above the noise-bound B* is searched
        paper_dataset: what the paper calls the data set; None if the paper does not have it
        paper_noise: what the paper calls the noise
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    table: TableName
    dataset: str
    num_classes: int
    modality: Modality = "image"
    noise: NoiseKind | None
    noise_rate: float
    bound_classes: int | None = None
    metrics: tuple[Metric, ...] = ("top1",)
    offset_range: float = 0.2
    paper_dataset: str | None = None
    paper_noise: str | None = None


def _symmetric(
    table: TableName,
    dataset: str,
    title: str,
    num_classes: int,
    rates: Sequence[float],
    metrics: tuple[Metric, ...],
) -> list[Column]:
    return [
        Column(
            name=f"{dataset}-{rate}",
            title=f"{title} {rate}",
            table=table,
            dataset=dataset,
            num_classes=num_classes,
            noise="symmetric",
            noise_rate=rate,
            metrics=metrics,
            paper_dataset=title.replace("-", ""),
            paper_noise="symmetric",
        )
        for rate in rates
    ]


_BOTH: tuple[Metric, ...] = ("top1", "top5")

_TABLE_1 = [
    *_symmetric("table1", "mnist", "MNIST", 10, (0.4, 0.6), ("top1",)),
    *_symmetric("table1", "fashion-mnist", "FashionMNIST", 10, (0.2, 0.4), ("top1",)),
    *_symmetric("table1", "emnist", "EMNIST", 47, (0.2, 0.4), _BOTH),
    *_symmetric("table1", "cifar10", "CIFAR-10", 10, (0.2, 0.4), ("top1",)),
]

_TABLE_2 = [
    *_symmetric("table2", "cifar100", "CIFAR-100", 100, (0.2, 0.4), _BOTH),
    *(
        Column(
            name=f"asym-cifar100-{rate}",
            title=f"Asym-CIFAR-100 {rate}",
            table="table2",
            dataset="cifar100",
            num_classes=100,
            noise="superclass",
            noise_rate=rate,
            metrics=_BOTH,
            offset_range=0.6,
            paper_dataset="CIFAR100",
            paper_noise="asymmetric-superclass",
        )
        for rate in (0.2, 0.4)
    ),
    Column(
        name="nonuniform-emnist-0.6",
        title="Non-uniform EMNIST 0.6",
        table="table2",
        dataset="emnist",
        num_classes=47,
        noise="classifier",
        noise_rate=0.6,
        bound_classes=2,  # a label is the true one or the classifier's
        metrics=_BOTH,
        offset_range=0.6,
        paper_dataset="EMNIST",
        paper_noise="non-uniform-linear",
    ),
]

_OPEN_SET = [
    *_symmetric("open-set", "tiny-imagenet", "TinyImageNet", 200, (0.2, 0.4), _BOTH),
    Column(
        name="animals-10n",
        title="Animals-10N",
        table="open-set",
        dataset="animals-10n",
        num_classes=10,
        noise=None,
        noise_rate=0.11,
        paper_dataset="Animals10N",
        paper_noise="intrinsic",
    ),
]

_OWN = [
    *(
        Column(
            name=f"cifar10n-{which}",
            title=f"CIFAR-10N {which} ({rate:.1%})",
            table="own",
            dataset=f"cifar10n-{which}",
            num_classes=10,
            noise=None,
            noise_rate=rate,
        )
        for which, rate in (("aggregate", 0.0901), ("random1", 0.1723), ("worst", 0.4021))
    ),
    Column(
        name="digits-0.4",
        title="Digits 0.4",
        table="own",
        dataset="digits",
        num_classes=10,
        noise="symmetric",
        noise_rate=0.4,
    ),
]


def _structured(dataset: str, title: str, kind: NoiseKind, rate: float) -> Column:
    return Column(
        name=f"{dataset}-{kind}-{rate}",
        title=f"{title} {kind} {rate}",
        table="beyond",
        dataset=dataset,
        num_classes=10,
        noise=kind,
        noise_rate=rate,
        bound_classes=2 if kind == "classifier" else None,  # the true label or the classifier's
    )


def _beyond(dataset: str, title: str, symmetric: Sequence[float]) -> list[Column]:
    """Return the columns of a data set that the other tables do not have."""
    return [
        Column(
            name=f"{dataset}-clean",
            title=f"{title} clean",
            table="beyond",
            dataset=dataset,
            num_classes=10,
            noise=None,
            noise_rate=0.0,
        ),
        *(
            column.model_copy(update={"paper_dataset": None, "paper_noise": None})
            for column in _symmetric("beyond", dataset, title, 10, symmetric, ("top1",))
        ),
        _structured(dataset, title, "pairwise", 0.2),
        _structured(dataset, title, "pairwise", 0.4),
        _structured(dataset, title, "classifier", 0.6),
    ]


_BEYOND = [
    *_beyond("fashion-mnist", "FashionMNIST", [0.6]),
    *_beyond("mnist", "MNIST", [0.2]),
]

_PRETRAINED = [
    Column(
        name="cifar10-pairwise-0.4",
        title="CIFAR-10 pairwise 0.4",
        table="pretrained",
        dataset="cifar10",
        num_classes=10,
        noise="pairwise",
        noise_rate=0.4,
    ),
    Column(
        name="cifar100-clean",
        title="CIFAR-100 clean",
        table="pretrained",
        dataset="cifar100",
        num_classes=100,
        noise=None,
        noise_rate=0.0,
    ),
    Column(
        name="noisy-ag-news",
        title="NoisyAG-News (19.8%)",
        table="pretrained",
        dataset="noisy-ag-news",
        num_classes=4,
        modality="text",
        noise=None,
        noise_rate=0.198,
    ),
]

COLUMNS = {
    column.name: column
    for column in (*_TABLE_1, *_TABLE_2, *_OPEN_SET, *_OWN, *_BEYOND, *_PRETRAINED)
}

BEYOND = tuple(
    COLUMNS[name]
    for name in (
        *(
            f"{dataset}-{noise}"
            for dataset in ("fashion-mnist", "mnist")
            for noise in (
                "clean",
                "0.2",
                "0.4",
                "0.6",
                "pairwise-0.2",
                "pairwise-0.4",
                "classifier-0.6",
            )
        ),
        "nonuniform-emnist-0.6",
        "cifar10n-worst",
    )
)
"""The columns in which the method is told nothing of the noise."""

PRETRAINED = tuple(
    COLUMNS[name]
    for name in (
        "cifar10n-aggregate",
        "cifar10n-random1",
        "cifar10n-worst",
        "cifar10-0.4",
        "cifar10-pairwise-0.4",
        "cifar100-0.4",
        "asym-cifar100-0.4",
        "cifar100-clean",
        "noisy-ag-news",
    )
)
"""The columns whose examples are embedded by a pretrained backbone."""


def columns_of(table: TableName) -> tuple[Column, ...]:
    """Return the columns of a table."""
    return tuple(column for column in COLUMNS.values() if column.table == table)


def find_columns(names: Sequence[str], among: Sequence[Column] | None = None) -> tuple[Column, ...]:
    """Return the columns with these names; the name of a data set stands for all its columns.

    Args:
        names: names of columns and of data sets
        among: the columns that a data set's name stands for; None for all but those beyond the
            paper and those of the experiment on embeddings
    """
    if not names:
        raise InvalidValueError("name at least one column")
    usual = [column for column in COLUMNS.values() if column.table not in ("beyond", "pretrained")]
    found = []
    for name in names:
        of_dataset = [column for column in among or usual if column.dataset == name.lower()]
        matching = [COLUMNS[name.lower()]] if name.lower() in COLUMNS else of_dataset
        if not matching:
            raise InvalidValueError(f"unknown column {name!r}: choose from {', '.join(COLUMNS)}")
        found += matching
    return tuple(dict.fromkeys(found))
