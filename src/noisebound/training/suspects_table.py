"""Suspect labels for people: a ranking, and a sheet of images."""

import polars as pl
from matplotlib.figure import Figure

from noisebound.data import Dataset, Splits
from noisebound.estimation import Suspects
from noisebound.report.contact_sheet import contact_sheet


def suspects_table(suspects: Suspects, splits: Splits) -> pl.DataFrame:
    """Every training example, the most suspect first."""
    train, names = splits.train, splits.train_names
    ranking = suspects.ranking.tolist()
    columns = {
        "example": ranking if names is None else [names[place] for place in ranking],
        "label": _classes(train, train.labels[suspects.ranking].tolist()),
        "probability_wrong": suspects.probability[suspects.ranking].tolist(),
        "score": suspects.score[suspects.ranking].tolist(),
    }
    if suspects.suggested is not None:
        columns["suggested"] = _classes(train, suspects.suggested[suspects.ranking].tolist())
    if train.true_labels is not None:
        columns["true_label"] = _classes(train, train.true_labels[suspects.ranking].tolist())
    return pl.DataFrame(columns)


def suspects_sheet(suspects: Suspects, train: Dataset, most: int) -> Figure:
    """The most suspect images, with the label that each has and the one that it should have."""
    worst = suspects.ranking[:most]
    captions = []
    for place in worst.tolist():
        caption = _short(train.class_names[int(train.labels[place])])
        if suspects.suggested is not None:
            caption += f"\n→ {_short(train.class_names[int(suspects.suggested[place])])}"
        captions.append(f"{caption} {suspects.probability[place]:.0%}")
    return contact_sheet(train.inputs[worst], captions, "labels that are probably wrong")


def _classes(train: Dataset, indices: list[int]) -> list[str]:
    return [train.class_names[index] for index in indices]


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
