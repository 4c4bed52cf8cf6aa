"""Suspect labels for people: a ranking, a sheet of images, and a part of a page."""

import polars as pl
from matplotlib.figure import Figure

from noisebound.data import Dataset, Splits
from noisebound.estimation import Suspects
from noisebound.report.contact_sheet import contact_sheet
from noisebound.report.gallery import Thumbnail, thumbnail
from noisebound.report.page import Section
from noisebound.report.table import Cell, Row, Table

_ON_A_PAGE = 24


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


def suspects_section(suspects: Suspects, splits: Splits) -> Section:
    """The most suspect of all, as images or as rows of a table."""
    expected, shown = suspects.probability.sum().item(), min(_ON_A_PAGE, len(splits.train))
    text = f"Of {len(splits.train):,} labels about {expected:,.0f} are probably wrong. These are "
    text += f"the first {shown}; the command noisebound suspects ranks them all."
    title = "The most suspect labels"
    if splits.train.is_images:
        return Section(title, text, gallery=_gallery(suspects, splits))
    return Section(title, text, tables=[_shown_table(suspects, splits)])


def _gallery(suspects: Suspects, splits: Splits) -> list[Thumbnail]:
    pictures = []
    for place in suspects.ranking[:_ON_A_PAGE].tolist():
        label, suggested, probability = _suspicion(suspects, splits.train, place)
        lines = [
            _name(splits, place),
            f"label: {label}",
            f"likelier: {suggested}",
            f"wrong: {_share(probability)}",
        ]
        image = splits.train.inputs[place]
        pictures.append(thumbnail(image, f"Example {_name(splits, place)}", lines))
    return pictures


def _shown_table(suspects: Suspects, splits: Splits) -> Table:
    rows = []
    for place in suspects.ranking[:_ON_A_PAGE].tolist():
        label, suggested, probability = _suspicion(suspects, splits.train, place)
        cells = (Cell(label), Cell(suggested), Cell(_share(probability), "", probability))
        rows.append(Row(_name(splits, place), cells))
    header = ("example", "label", "likelier", "probability that it is wrong")
    return Table("suspects", "Labels that are probably wrong", header, tuple(rows), ())


def _suspicion(suspects: Suspects, train: Dataset, place: int) -> tuple[str, str, float]:
    assert suspects.suggested is not None
    label, suggested = (
        train.class_names[int(index)] for index in (train.labels[place], suspects.suggested[place])
    )
    return label, suggested, suspects.probability[place].item()


def _name(splits: Splits, place: int) -> str:
    return f"#{place}" if splits.train_names is None else splits.train_names[place]


def _share(probability: float) -> str:
    """Nothing is certain, however it is rounded."""
    return "over 99.9%" if probability > 0.999 else f"{probability:.1%}"


def _classes(train: Dataset, indices: list[int]) -> list[str]:
    return [train.class_names[index] for index in indices]


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
