"""``noisebound suspects FILE --tokens``: rank the labels of tokens and spans."""

from collections.abc import Sequence
from pathlib import Path

from noisebound.system.console import print_note, print_text


def suspect_tokens(
    path: Path,
    probs: Path | None,
    classes: Sequence[str],
    encoding: str | None,
    out: Path,
    page: Path | None,
    most: int,
    quote_formulas: bool,
) -> None:
    """Write the ranking of a file's tokens, that of its spans, and a page."""
    from noisebound.data.tagged_text import read_tagged_text
    from noisebound.estimation import estimate_noise, find_suspects
    from noisebound.estimation.tokens import are_span_tags
    from noisebound.pages.page import write_page
    from noisebound.pages.tokens import spans_frame, tokens_frame, tokens_page
    from noisebound.runs.predict import write_frame

    text = read_tagged_text(path, probs, classes, encoding)
    estimate = estimate_noise(text.probs, text.labels)
    found = find_suspects(text.probs, text.labels)
    spans = found.spans(text.class_names) if are_span_tags(text.class_names) else []
    write_frame(tokens_frame(found, text), out, quotes_formulas=quote_formulas)
    print_text(f"estimated noise rate of the tokens: {estimate.summary}", style="bold")
    for warning in estimate.diagnostics.warnings:
        print_note(warning)
    count = int((found.score > 0).sum())
    headline = f"{len(found.score):,} labels of tokens in {len(text.sentences):,} sentences, of "
    headline += f"which about {count:,} are probably wrong"
    print_text(headline)
    print_text(f"all tokens, ranked: {out}")
    if spans:
        beside = out.with_stem(f"{out.stem}-spans")
        write_frame(spans_frame(spans, text), beside, quotes_formulas=quote_formulas)
        wrong = sum(each.score > 0 for each in spans)
        print_text(f"all spans, of which {wrong:,} are probably wrong: {beside}")
    place = page or out.with_suffix(".html")
    write_page(tokens_page(found, text, estimate, spans, most, f"{headline}.", path.name), place)
    print_text(f"the most suspect ones in their sentences: {place}")
