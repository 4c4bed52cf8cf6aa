"""Examples to look at: suspect labels, duplicates, and examples far from all others."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from noisebound.data import Splits
from noisebound.estimation import Suspects
from noisebound.estimation.repeated import noise_of_repeated
from noisebound.pages.examples import ShownExamples
from noisebound.pages.page import Page, Section
from noisebound.pages.table import Cell, Row, Table, number_cell
from noisebound.runs.judgment import shortened

_SHOWN = 24
_LONGEST_TEXT = 300  # characters, in a section of a run's page
_LONGEST_ALONE = 5000  # characters, on a page of suspects
_MOST_COLUMNS = 30
_NEARLY_CERTAIN = 0.999
_SETS, _OUTLIERS = 20, 10  # the most that are shown
_FENCE = 3  # interquartile ranges above the upper quartile: Tukey's "far out"


def suspects_page(
    suspects: Suspects, splits: Splits, most: int, headline: str, table: str | None = None
) -> Page:
    """Return the page of the ``most`` suspect labels; the file ``table`` ranks all labels."""
    text = f"The {min(most, len(splits.train)):,} most suspect of {len(splits.train):,} labels."
    text += "" if table is None else f" The file {table} ranks them all."
    section = _section(text, suspects, splits, most, _LONGEST_ALONE)
    return Page(f"Suspect labels of {splits.name}", headline, [section])


def suspects_section(suspects: Suspects, splits: Splits, expected_wrong: int) -> Section:
    """Return a section of the most suspect labels, as images or as rows of a table."""
    count = len(splits.train)
    text = f"About {expected_wrong:,} of {count:,} labels are probably wrong. These are the first "
    text += f"{min(_SHOWN, count)}; the command noisebound suspects ranks them all."
    return _section(text, suspects, splits, _SHOWN, _LONGEST_TEXT)


def _section(text: str, suspects: Suspects, splits: Splits, most: int, longest: int) -> Section:
    title, positions = "The most suspect labels", suspects.ranking[:most]
    assert suspects.suggested is not None
    found = zip(
        positions.tolist(),
        splits.train.labels[positions].tolist(),
        suspects.suggested[positions].tolist(),
        suspects.probability[positions].tolist(),
        strict=True,
    )
    if not splits.has_pictures:
        return Section(title, text, [_table(found, splits, longest)])
    gallery, names, examples = [], splits.train.class_names, ShownExamples(splits)
    for position, label, suggested, probability in found:
        lines = [f"label: {names[label]}", f"likelier: {names[suggested]}"]
        lines.append(f"wrong: {probability_text(probability)}")
        gallery.append(examples.thumbnail(position, lines))
    return Section(title, text, gallery=gallery)


def _table(found: Iterable[tuple[int, int, int, float]], splits: Splits, longest: int) -> Table:
    examples, names, rows = ShownExamples(splits), splits.train.class_names, []
    header = ["example", "label", "likelier", "probability that it is wrong"]
    header += ["text"] if examples.kind == "text" else []
    columns: list[str] = []
    for position, label, suggested, probability in found:
        text, content = examples.text(position), dict(examples.columns(position))
        if splits.table is not None:  # unlike arrays, whose numbers have no names
            columns = [name for name in content if name != splits.id_column][:_MOST_COLUMNS]
        shown = [*([] if text is None else [text]), *(content[name] for name in columns)]
        cells = [Cell(names[label]), Cell(names[suggested])]
        cells.append(Cell(probability_text(probability), "", probability))
        cells += [Cell(shortened(each, longest)) for each in shown]
        rows.append(Row(splits.example_name(position), tuple(cells)))
    title = "Labels that are probably wrong"
    return Table("suspects", title, (*header, *columns), tuple(rows))


def probability_text(probability: float) -> str:
    """Return a probability as text, never as certain: it comes from noisy labels.

    Example:
        >>> probability_text(0.123), probability_text(0.99999), probability_text(1e-6)
        ('12.3%', '>99.9%', '<0.1%')
    """
    if probability > _NEARLY_CERTAIN:
        return f">{_NEARLY_CERTAIN:.1%}"
    is_shown = probability >= 1 - _NEARLY_CERTAIN
    return f"{probability:.1%}" if is_shown else f"<{1 - _NEARLY_CERTAIN:.1%}"


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
