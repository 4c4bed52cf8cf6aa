"""The accuracies and offsets that the paper reports, from the files in ``data/``."""

from dataclasses import dataclass
from functools import cache

from noisebound.catalog import LossName
from noisebound.paper.columns import Column, Metric, read_data
from noisebound.paper.methods import BOUNDED, label_of


@dataclass(frozen=True)
class PaperScore:
    """An accuracy in percent, and its standard deviation over three seeds if the paper has it."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class PaperPair:
    """The accuracies of a loss without and with its bound, on the same data by the same metric."""

    loss: str
    plain: float
    bounded: float

    @property
    def is_helped(self) -> bool:
        """True if the accuracy with the bound is at least as high; the paper counts ties."""
        return self.bounded >= self.plain


_Key = tuple[str, str, str, float, str]


def paper_score(column: Column, method: str, metric: Metric) -> PaperScore | None:
    """Return the paper's accuracy of a method on a column; None if it has none."""
    if column.paper_dataset is None or column.paper_noise is None:
        return None
    where = (column.paper_dataset, column.paper_noise, column.noise_rate, metric)
    return _scores().get((label_of(method), *where))


def paper_offset(column: Column, method: str) -> float | None:
    """Return the offset of the paper's best bound from the noise-bound; positive is above it.

    The paper's caption says the reverse; its text and its colors agree with the sign here.
    """
    for row in read_data("optimal_bound_offsets.csv"):
        is_here = (row["dataset"], row["noise"]) == (column.paper_dataset, column.paper_noise)
        is_same = is_here and float(row["noise_rate"]) == column.noise_rate
        if is_same and row["loss"] == LossName.parse(method).spec.label:
            return float(row["offset"])
    return None


def paper_pairs() -> list[PaperPair]:
    """Return every pair of a loss without and with its bound in tables 1 and 2.

    Example:
        >>> pairs = paper_pairs()
        >>> sum(pair.is_helped for pair in pairs), len(pairs)
        (82, 100)
    """
    labels = [label_of(name) for name in BOUNDED]
    return [
        PaperPair(key[0], plain.mean, _scores()[bounded].mean)
        for key, plain in _scores("tables-1-2").items()
        if key[0] in labels and (bounded := (f"{key[0]}+B", *key[1:])) in _scores()
    ]


@cache
def _scores(table: str | None = None) -> dict[_Key, PaperScore]:
    """Return the first of the paper's figures by method, data set, noise, rate and metric."""
    scores: dict[_Key, PaperScore] = {}
    for row in read_data("accuracies.csv"):
        if table is None or row["source_table"] == table:
            where = (row["dataset"], row["noise"], float(row["noise_rate"]), row["metric"])
            std = float(row["std"]) if row["std"] else None
            scores.setdefault(
                (row["loss"], *where), PaperScore(float(row["accuracy_percent"]), std)
            )
    for key in [key for key in scores if key[-1] == "top1"]:
        first_five = (*key[:-1], "top5")
        if first_five in scores and scores[first_five].mean < scores[key].mean:
            # The paper has the two figures of FCE on TinyImageNet 0.4 swapped.
            scores[key], scores[first_five] = scores[first_five], scores[key]
    return scores
