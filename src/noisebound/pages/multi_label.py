"""The report page of a training on several labels at once: a row for each label."""

from collections.abc import Mapping
from contextlib import suppress

import polars as pl

from noisebound.data import Splits
from noisebound.errors import DataError, RunError
from noisebound.pages.page import Code, Fact, Page, Section
from noisebound.pages.suspects import probability_text
from noisebound.pages.table import EMPTY, Cell, Row, Table, number_cell
from noisebound.runs import MultiLabelRun
from noisebound.runs.scores import RunScores

_SHOWN = 24  # suspects
_LONGEST = 300  # characters of a text
_SCORES = {
    "macro_f1": "macro-F1 on the test set",
    "micro_f1": "micro-F1 on the test set",
    "average_precision": "mean average precision on the test set",
    "subset_accuracy": "of the test examples have all labels right",
}


def labels_page(run: MultiLabelRun, splits: Splits, command: str | None = None) -> Page:
    """Return the page about a finished run; ``command`` repeats the training."""
    scores = run.scores_of(splits)
    known = {text: getattr(scores, name) for name, text in _SCORES.items()}
    facts = [Fact(str(len(run.labels)), "labels")]
    facts += [Fact(f"{value:.1%}", text) for text, value in known.items() if value is not None]
    sections = [Section("The labels", _in_words(run), [_labels_table(run, splits, scores.labels)])]
    with suppress(DataError, RunError):  # such as data that has changed
        sections.append(_suspects_section(run, splits))
    if command is not None:
        sections.append(Section("To repeat it", code=[Code("command", command, is_open=True)]))
    headline = (
        f"A two-class training for each of {len(run.labels)} labels: {', '.join(run.labels)}."
    )
    return Page(run.name, headline, sections, facts)


def _in_words(run: MultiLabelRun) -> str:
    text = (
        "Missed is the share of the examples with a label that lack it in the data, and added the "
        "share of those without it that have it there, as far as they could be estimated."
    )
    left_out = [f"{name} {why}" for name, why in run.record.left_out.items()]
    return text if not left_out else f"{text} These labels were left out: {'; '.join(left_out)}."


def _labels_table(run: MultiLabelRun, splits: Splits, scores: Mapping[str, RunScores]) -> Table:
    matrix = splits.train.label_matrix
    assert matrix is not None
    rows = []
    for place, noise in enumerate(run.noise.iter_rows(named=True)):
        name = noise["label"]
        column = matrix[:, splits.train.label_names.index(name)]
        score, choice = scores[name].validation, run.runs[name].recipe
        honest = EMPTY
        if score is not None and not score.warnings:
            low, high = score.interval
            honest = Cell(f"{score.accuracy:.1%}", f"{low:.1%} to {high:.1%}", score.accuracy)
        cells = (
            *(number_cell(int((column == value).sum()), ",d") for value in (1, 0)),
            *(_rate_cell(noise, each) for each in ("missed", "added", "noise_rate")),
            honest,
            Cell("" if choice is None else choice.name),
        )
        report = run.folder.of_label(place, name).report.relative_to(run.path)
        rows.append(Row(name, cells, link=str(report)))
    header = ("label", "with it", "without", "missed", "added", "wrong", "accuracy", "learner")
    notes = (
        "missed, added and wrong: the estimated rates, with their 95 % intervals",
        "accuracy: on true labels, by the validation split, with its 95 % interval",
    )
    title = "Each label, with a link to its report"
    return Table("labels", title, header, tuple(rows), notes=notes)


def _rate_cell(noise: dict[str, float | None], name: str) -> Cell:
    low, high = noise[f"{name}_low"], noise[f"{name}_high"]
    interval = "" if low is None else f"{low:.1%} to {high:.1%}"
    return number_cell(noise[name], ".1%")._replace(beside=interval)


def _suspects_section(run: MultiLabelRun, splits: Splits) -> Section:
    found = run.suspects(splits)
    expected = round(float(found["probability_wrong"].sum()))
    text = f"Of {len(found):,} pairs of an example and a label, about {expected:,} are probably "
    text += f"wrong. These are the first {min(_SHOWN, len(found))}; the command noisebound "
    text += "suspects ranks them all."
    return Section("The most suspect labels", text, [suspects_table(found, _SHOWN)])


def _suspect_row(found: dict[str, object]) -> Row:
    name = str(found["example"]) if isinstance(found["example"], str) else f"#{found['example']}"
    name = f"{found['id']} ({name})" if "id" in found else name
    probability = float(str(found["probability_wrong"]))
    cells = [Cell(str(found["label"])), Cell(str(found["suspect"]))]
    cells.append(Cell(probability_text(probability), "", probability))
    cells += [Cell(str(found["text"])[:_LONGEST])] if "text" in found else []
    return Row(name, tuple(cells))


def suspects_table(found: pl.DataFrame, most: int) -> Table:
    """Return the first rows of a ranking of pairs of an example and a label."""
    header = ["example", "label", "suspect", "probability that it is wrong"]
    header += ["text"] if "text" in found.columns else []
    rows = [_suspect_row(each) for each in found.head(most).iter_rows(named=True)]
    return Table("suspects", "Labels that are probably wrong", tuple(header), tuple(rows))
