"""The page of suspect tokens and spans, each marked in its sentence, and their tables."""

from collections.abc import Sequence

import polars as pl

from noisebound.data.tagged_text import TaggedText
from noisebound.estimation import NoiseEstimate, Span, TokenSuspects
from noisebound.estimation.tokens import SpanSuspect
from noisebound.pages.page import Page, Section
from noisebound.pages.suspects import probability_text
from noisebound.pages.table import Cell, Row, Table, confusions

_AROUND = 25  # words before and after a marked one; heuristic
_NONE = "–"


def tokens_frame(found: TokenSuspects, text: TaggedText) -> pl.DataFrame:
    """Return one row per labeled token, the most suspect first."""
    assert found.suggested is not None
    order, names = found.ranking, text.class_names
    places = found.places[order].tolist()
    return pl.DataFrame(
        {
            "line": [text.line_of(*place) for place in places],
            "sentence": [sentence for sentence, _ in places],
            "position": [position for _, position in places],
            "word": [text.sentences[i].words[j] for i, j in places],
            "label": [names[each] for each in found.labels[order].tolist()],
            "probability_wrong": found.probability[order].tolist(),
            "score": found.score[order].tolist(),
            "suggested": [names[each] for each in found.suggested[order].tolist()],
        }
    )


def spans_frame(spans: Sequence[SpanSuspect], text: TaggedText) -> pl.DataFrame:
    """Return one row per labeled or suggested span, the most suspect first."""

    def columns(kind: str, span: Span | None, sentence: int) -> dict[str, str | None]:
        words = text.sentences[sentence].words
        return {
            kind: None if span is None else span.type,
            f"{kind}_words": None if span is None else " ".join(words[span.start : span.stop]),
        }

    rows = [
        {
            "line": text.line_of(each.sentence, _reach(each)[0]),
            "sentence": each.sentence,
            "probability_wrong": each.probability,
            **columns("label", each.label, each.sentence),
            **columns("suggested", each.suggested, each.sentence),
        }
        for each in spans
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def tokens_page(
    found: TokenSuspects,
    text: TaggedText,
    estimate: NoiseEstimate,
    spans: Sequence[SpanSuspect],
    most: int,
    headline: str,
    name: str,
) -> Page:
    """Return the page of the ``most`` suspect spans and tokens of a file."""
    sections = [Section("The most suspect tokens", "", [_token_table(found, text, most)])]
    if spans:
        shown = [each for each in spans if each.score > 0][:most]
        about = "Spans whose labels are probably wrong, and spans that have no label."
        sections.insert(0, Section("The most suspect spans", about, [_span_table(shown, text)]))
    title, matrix = "Labels by true class", estimate.transition.tolist()
    table = confusions(title, "label", "true class", text.class_names, matrix)
    sections.append(Section("The noise by class", estimate.words, [table]))
    return Page(f"Suspect labels of {name}", headline, sections)


def _token_table(found: TokenSuspects, text: TaggedText, most: int) -> Table:
    rows = []
    for each in tokens_frame(found, text).head(most).iter_rows(named=True):
        place = each["position"]
        cells = (
            in_context(text.sentences[each["sentence"]].words, place, place + 1),
            Cell(each["label"]),
            Cell(each["suggested"]),
            Cell(probability_text(each["probability_wrong"]), "", each["probability_wrong"]),
        )
        rows.append(Row(f"line {each['line']}", cells))
    header = ("token", "sentence", "label", "likelier", "probability that it is wrong")
    return Table("tokens", "Tokens", header, tuple(rows))


def _span_table(spans: Sequence[SpanSuspect], text: TaggedText) -> Table:
    rows = []
    for each in spans:
        words, reach = text.sentences[each.sentence].words, _reach(each)
        shown = (
            _NONE if span is None else f"{span.type}: {' '.join(words[span.start : span.stop])}"
            for span in (each.label, each.suggested)
        )
        sure = Cell(probability_text(each.probability), "", each.probability)
        cells = (in_context(words, *reach), *map(Cell, shown), sure)
        rows.append(Row(f"line {text.line_of(each.sentence, reach[0])}", cells))
    header = ("span", "sentence", "label", "likelier", "probability that it is wrong")
    return Table("spans", "Spans", header, tuple(rows))


def _reach(each: SpanSuspect) -> tuple[int, int]:
    """Return the first and the last position of the labeled and the suggested span."""
    both = [span for span in (each.label, each.suggested) if span is not None]
    return min(span.start for span in both), max(span.stop for span in both)


def in_context(words: Sequence[str], start: int, stop: int) -> Cell:
    """Return words of a sentence, marked, with the words around them.

    Example:
        >>> cell = in_context(["He", "met", "Ann", "Lee"], 2, 4)
        >>> cell.text, cell.text[slice(*cell.mark)]
        ('He met Ann Lee', 'Ann Lee')
    """
    first, last = max(0, start - _AROUND), min(len(words), stop + _AROUND)
    before = ("… " if first else "") + "".join(f"{word} " for word in words[first:start])
    marked = " ".join(words[start:stop])
    after = "".join(f" {word}" for word in words[stop:last]) + (" …" if last < len(words) else "")
    return Cell(before + marked + after, mark=(len(before), len(before) + len(marked)))
