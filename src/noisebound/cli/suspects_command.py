"""``noisebound suspects``: find the labels that are probably wrong."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from noisebound.cli.options import QuoteFormulas, Reading, ReadingFlags, RunPath, TrainingSource
from noisebound.system.console import print_note, print_text


def suspects(
    run: RunPath,
    data: TrainingSource = None,
    *,
    out: Path,
    page: Path | None = None,
    most: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 64,
    quote_formulas: QuoteFormulas = True,
    reading: Reading = None,
) -> None:
    """Rank the training labels of a run by the probability that they are wrong.

    Parameters
    ----------
    out
        The .csv or .parquet file to write, with one row per example, most suspect first: its label,
            the probability that the label is wrong, and a suggested label.
    page
        The .html file to show the most suspect examples in [default: beside the table].
    most
        The number of examples on the page.
    """
    from noisebound.estimation import EstimatedNoise, GivenTransition
    from noisebound.pages.suspects import suspects_page
    from noisebound.report.page import write_page
    from noisebound.runs.judgment import suspects_frame
    from noisebound.runs.predict import check_writable, write_frame

    check_writable(out)
    trained, splits = (reading or ReadingFlags()).load_run(run, data)
    found = trained.find_suspects(splits)
    table = suspects_frame(found, splits)
    write_frame(table, out, quotes_formulas=quote_formulas)
    expected = trained.expected_wrong(found)
    because = trained.noise.unknown_because
    if because is None:
        headline = f"{len(table):,} labels, of which about {expected:,} are probably wrong"
        print_text(headline)
    else:
        headline = f"how many of the {len(table):,} labels are wrong is unknown, and their "
        headline += f"ranking means little: {because}"
        print_note(headline)
    print_text(f"all labels, ranked: {out}")
    knows_structure = isinstance(trained.noise, EstimatedNoise | GivenTransition)
    if trained.result.chosen is None and not knows_structure:
        print_note(
            "this run had no bound, and its model may have memorized wrong "
            "labels: train another with noisebound fit DATA --out RUN, without --loss"
        )
    place = page or out.with_suffix(".html")
    headline = f"{headline[0].upper()}{headline[1:]}."
    write_page(suspects_page(found, splits, most, headline, out.name), place)
    print_text(f"the most suspect examples: {place}")
