"""The section of a report on annotators: how often each errs, how, and who disagrees with whom."""

from collections.abc import Sequence

from noisebound.estimation import AnnotatorEstimate
from noisebound.pages.page import Section
from noisebound.pages.table import EMPTY, Cell, Row, Table, confusions, number_cell
from noisebound.runs.judgment import annotators_frame

_MATRICES = 12  # annotators with a heat map of their own; heuristic
_COMPARED = 20  # annotators in the table of pairs; more do not fit on a page

_NOTES = (
    "wrong: the estimated share of the annotator's labels that are wrong",
    "agreement: with the other annotators, beyond chance; 1 is full agreement (Cohen's kappa)",
)


def annotators_section(found: AnnotatorEstimate, class_names: Sequence[str]) -> Section:
    """Return the section on the annotators of a run."""
    who = f"{len(found.names):,} annotators" if found.are_named else "Unknown annotators"
    words = f"{who} gave {int(found.counts.sum()):,} labels to the examples that were trained on."
    order = found.counts.argsort(descending=True, stable=True).tolist()
    titles, tables = {0: "Labels by all annotators"}, [_table(found, class_names)]
    if found.are_named:
        titles = {each: f"Labels by {found.names[each]}" for each in order[:_MATRICES]}
        tables.append(_pairs(found, order[:_COMPARED]))
    folded = [
        confusions(title, "label", "true class", class_names, found.transitions[each].tolist())
        for each, title in titles.items()
    ]
    return Section("The annotators", words, tables, folded=folded)


def _table(found: AnnotatorEstimate, class_names: Sequence[str]) -> Table:
    rows = []
    for each in annotators_frame(found, class_names).iter_rows():
        name, count, rate, low, high, kappa, mistake = each
        numbers = number_cell(count, ",d"), number_cell(rate, ".1%")
        interval = Cell(f"{low:.1%} to {high:.1%}", "", low)
        cells = (*numbers, interval, number_cell(kappa, ".2f"), Cell(mistake or "–"))
        rows.append(Row(name, cells))
    header = ("annotator", "labels", "wrong", "95% interval", "agreement", "most frequent mistake")
    return Table("annotators", "Annotators", header, tuple(rows), notes=_NOTES)


def _pairs(found: AnnotatorEstimate, shown: Sequence[int]) -> Table:
    """Return how often two annotators give the same label, as a heat map of disagreement."""
    rows = []
    for one in shown:
        cells = []
        for other in shown:
            share = float(found.pairwise_agreement[one, other])
            is_known = one != other and share == share
            shade = 1 - share
            cells.append(Cell(f"{100 * shade:.0f}", "", shade, share=shade) if is_known else EMPTY)
        rows.append(Row(found.names[one], tuple(cells)))
    names = [found.names[each] for each in shown]
    title = "Disagreement of two annotators on the examples that both labeled, %"
    return Table("disagreement", title, ("annotator", *names), tuple(rows))
