"""The sections of a run's page on duplicates, and on examples that are far from all others."""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from noisebound.data import Splits
from noisebound.estimation.repeated import noise_of_repeated
from noisebound.pages.examples import ShownExamples
from noisebound.pages.page import Section
from noisebound.pages.table import Cell, Row, Table, number_cell

_SETS, _OUTLIERS = 20, 10  # the most that are shown
_FENCE = 3  # interquartile ranges above the upper quartile: Tukey's "far out"


def closeness_sections(splits: Splits) -> list[Section]:
    """Return a section on duplicates and one on outliers, if there are any."""
    return [*_duplicates(splits), *_outliers(splits)]


def _duplicates(splits: Splits) -> list[Section]:
    train = splits.train
    sets, text = splits.duplicates.described(train.labels)
    if not sets:
        return []
    text += ". Different labels of copies cannot all be right."
    found = noise_of_repeated(train.labels, sets, train.num_classes)
    text += "" if found is None else f" {found.words}"
    examples, rows = ShownExamples(splits), []
    for each in sets[:_SETS]:
        names = " = ".join(map(splits.example_name, each))
        labels = ", ".join(train.class_names[k] for k in train.labels[each].tolist())
        rows.append(Row(names, (Cell(labels), Cell(examples.short(each[0])))))
    header = ("examples", "labels", "content of the first")
    return [Section("Duplicates", text, [Table("duplicates", "Copies", header, tuple(rows))])]


def _outliers(splits: Splits) -> list[Section]:
    remoteness = splits.duplicates.remoteness
    positions = [] if remoteness is None else _far_out(remoteness)
    if remoteness is None or not positions:
        return []
    text = (
        "These examples are far from all others: they may belong to none of the classes. Distances "
        "are those to the tenth neighbor, as multiples of the median."
    )
    examples, train, gallery, rows = ShownExamples(splits), splits.train, [], []
    for position in positions:
        label, distance = train.class_names[train.labels[position]], float(remoteness[position])
        if splits.has_pictures:
            lines = [f"label: {label}", f"distance: {distance:.1f}"]
            gallery.append(examples.thumbnail(position, lines))
        else:
            cells = (Cell(label), number_cell(distance, ".1f"), Cell(examples.short(position)))
            rows.append(Row(splits.example_name(position), cells))
    header = ("example", "label", "distance", "content")
    tables = [Table("outliers", "Outliers", header, tuple(rows))] if rows else []
    return [Section("Outliers", text, tables, gallery=gallery)]


def _far_out(remoteness: Float[Tensor, " n"]) -> list[int]:
    """Return the positions of the remotest examples, if they are beyond the fence."""
    logs = remoteness.log()  # distances are skewed
    low, high = np.quantile(logs.numpy(), (0.25, 0.75))
    found = logs.topk(min(_OUTLIERS, len(logs)))
    is_out = found.values > high + _FENCE * (high - low)
    positions: list[int] = found.indices[is_out].tolist()
    return positions
