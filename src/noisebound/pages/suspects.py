"""The page of suspect labels, and their section on a run's page."""

from noisebound.data import Splits
from noisebound.estimation import Suspects
from noisebound.estimation.suspects import probability_text
from noisebound.pages.examples import ShownExamples
from noisebound.report.images import Thumbnail, thumbnail
from noisebound.report.page import Page, Section
from noisebound.report.table import Cell, Row, Table
from noisebound.runs.judgment import shortened

_SHOWN = 24
_LONGEST_TEXT = 300  # characters, in a section of a run's page
_LONGEST_ALONE = 5000  # characters, on a page of suspects
_MOST_COLUMNS = 30


def suspects_page(
    suspects: Suspects, splits: Splits, most: int, headline: str, table: str | None = None
) -> Page:
    """Return the page of the ``most`` suspect labels; the file ``table`` ranks all labels."""
    shown = min(most, len(splits.train))
    text = f"The {shown:,} most suspect of {len(splits.train):,} labels."
    text += "" if table is None else f" The file {table} ranks them all."
    section = _section(text, suspects, splits, shown, _LONGEST_ALONE)
    return Page(f"Suspect labels of {splits.name}", headline, [section])


def suspects_section(suspects: Suspects, splits: Splits, expected_wrong: int) -> Section:
    """Return a section of the most suspect labels, as images or as rows of a table."""
    shown = min(_SHOWN, len(splits.train))
    text = f"About {expected_wrong:,} of {len(splits.train):,} labels are probably wrong. These "
    text += f"are the first {shown}; the command noisebound suspects ranks them all."
    return _section(text, suspects, splits, shown, _LONGEST_TEXT)


def _section(
    text: str, suspects: Suspects, splits: Splits, shown: int, longest_text: int
) -> Section:
    title, positions = "The most suspect labels", suspects.ranking[:shown].tolist()
    if splits.has_pictures:
        gallery = [_thumbnail(suspects, splits, position) for position in positions]
        return Section(title, text, gallery=gallery)
    return Section(title, text, tables=[_table(suspects, splits, positions, longest_text)])


def _thumbnail(suspects: Suspects, splits: Splits, position: int) -> Thumbnail:
    label, suggested, probability = _suspicion(suspects, splits, position)
    name, image = splits.example_name(position), splits.picture(position)
    lines = [
        name,
        f"label: {label}",
        f"likelier: {suggested}",
        f"wrong: {probability_text(probability)}",
    ]
    assert image is not None
    return thumbnail(image, f"Example {name}", lines)


def _table(suspects: Suspects, splits: Splits, positions: list[int], longest_text: int) -> Table:
    examples, rows = ShownExamples(splits), []
    has_columns = splits.table is not None  # unlike arrays, whose numbers have no names
    columns: tuple[str, ...] = ()
    for position in positions:
        label, suggested, probability = _suspicion(suspects, splits, position)
        cells = [Cell(label), Cell(suggested), Cell(probability_text(probability), "", probability)]
        text = examples.text(position)
        if text is not None:
            cells.append(Cell(shortened(text, longest_text)))
        if has_columns:
            all_columns = examples.columns(position)
            found = {name: value for name, value in all_columns if name != splits.id_column}
            columns = tuple(found)[:_MOST_COLUMNS]
            cells += [Cell(shortened(found[name], longest_text)) for name in columns]
        rows.append(Row(splits.example_name(position), tuple(cells)))
    header: tuple[str, ...] = ("example", "label", "likelier", "probability that it is wrong")
    header += ("text",) if examples.kind == "text" else ()
    return Table("suspects", "Labels that are probably wrong", header + columns, tuple(rows), ())


def _suspicion(suspects: Suspects, splits: Splits, position: int) -> tuple[str, str, float]:
    assert suspects.suggested is not None
    names = splits.train.class_names
    label, suggested = splits.train.labels[position], suspects.suggested[position]
    return names[int(label)], names[int(suggested)], suspects.probability[position].item()
