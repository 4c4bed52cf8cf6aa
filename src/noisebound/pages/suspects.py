"""Suspect labels for people: a sheet of images, and a section of a page."""

from matplotlib.figure import Figure

from noisebound.data import Dataset, Splits
from noisebound.estimation import Suspects
from noisebound.report.contact_sheet import contact_sheet
from noisebound.report.gallery import Thumbnail, thumbnail
from noisebound.report.page import Section
from noisebound.report.table import Cell, Row, Table
from noisebound.report.text_sheet import text_sheet
from noisebound.runs.suspects import cut

_SHOWN = 24  # on a page: a choice
_LONGEST_TEXT = 300  # letters of a text on a page: a choice


def suspects_sheet(suspects: Suspects, splits: Splits, most: int) -> Figure:
    """Return the most suspect images, each with its label and the suggested one."""
    train, worst = splits.train, suspects.ranking[:most].tolist()
    captions = []
    for place in worst:
        caption = _short(train.class_names[int(train.labels[place])])
        if suspects.suggested is not None:
            caption += f"\n→ {_short(train.class_names[int(suspects.suggested[place])])}"
        captions.append(f"{caption} {suspects.probability[place]:.0%}")
    images = [picture for place in worst if (picture := splits.picture(place)) is not None]
    return contact_sheet(images, captions, "labels that are probably wrong")


def text_suspects_sheet(suspects: Suspects, splits: Splits, most: int) -> Figure:
    """Return the most suspect texts, each with its label and the suggested one."""
    texts, captions, worst = splits.texts(), [], suspects.ranking[:most].tolist()
    assert texts is not None
    for place in worst:
        label, suggested, probability = _suspicion(suspects, splits.train, place)
        captions.append(f"{_short(label)} → {_short(suggested)} {probability:.0%}")
    shown = [cut(texts[place], _LONGEST_TEXT) for place in worst]
    return text_sheet(shown, captions, "labels that are probably wrong")


def suspects_section(suspects: Suspects, splits: Splits, expected_wrong: int) -> Section:
    """Return the most suspect labels, as images or as rows of a table."""
    shown = min(_SHOWN, len(splits.train))
    text = f"About {expected_wrong:,} of {len(splits.train):,} labels are probably wrong. These "
    text += f"are the first {shown}; the command noisebound suspects ranks them all."
    title = "The most suspect labels"
    if splits.has_pictures:
        return Section(title, text, gallery=_gallery(suspects, splits))
    return Section(title, text, tables=[_table(suspects, splits)])


def _gallery(suspects: Suspects, splits: Splits) -> list[Thumbnail]:
    worst = suspects.ranking[:_SHOWN]
    pictures = []
    for place, image in zip(worst.tolist(), splits.train.rows.dense(worst), strict=True):
        label, suggested, probability = _suspicion(suspects, splits.train, place)
        lines = [
            _name(splits, place),
            f"label: {label}",
            f"likelier: {suggested}",
            f"wrong: {_share(probability)}",
        ]
        image = splits.picture(place)
        assert image is not None
        pictures.append(thumbnail(image, f"Example {_name(splits, place)}", lines))
    return pictures


def _table(suspects: Suspects, splits: Splits) -> Table:
    rows = []
    texts = splits.texts()
    for place in suspects.ranking[:_SHOWN].tolist():
        label, suggested, probability = _suspicion(suspects, splits.train, place)
        shown = () if texts is None else (Cell(cut(texts[place], _LONGEST_TEXT)),)
        cells = (Cell(label), Cell(suggested), Cell(_share(probability), "", probability))
        rows.append(Row(_name(splits, place), (*cells, *shown)))
    header: tuple[str, ...] = ("example", "label", "likelier", "probability that it is wrong")
    header += () if texts is None else ("text",)
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
    """Return a share in percent that never rounds to certainty."""
    return "over 99.9%" if probability > 0.999 else f"{probability:.1%}"


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
