"""``noisebound suspects``: find the labels that are probably wrong."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators
from rich.markup import escape

from noisebound.cli.options import (
    QuoteFormulas,
    Reading,
    ReadingFlags,
    RunPath,
    TrainingSource,
)
from noisebound.console import Console
from noisebound.errors import InvalidValueError


def suspects(
    run: RunPath,
    data: TrainingSource = None,
    *,
    out: Path,
    sheet: Path | None = None,
    most: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 64,
    quote_formulas: QuoteFormulas = True,
    reading: Reading = None,
) -> None:
    """Rank the labels of a run's training data by how likely they are wrong.

    Parameters
    ----------
    out
        The .csv or .parquet file to write. It has one row per example, the most suspect first,
            with its label, the probability that the label is wrong, and a suggested label.
    sheet
        The .png file for the most suspect images or texts [default: beside the table, if the data
            are such].
    most
        The number of images or texts on the sheet.
    """
    from noisebound.estimation import EstimatedNoise, GivenTransition
    from noisebound.pages.suspects import suspects_sheet, text_suspects_sheet
    from noisebound.report.plots import save_figure
    from noisebound.runs import load_run
    from noisebound.runs.predict import check_writable, write_frame
    from noisebound.runs.suspects import suspects_frame

    check_writable(out)
    flags = reading or ReadingFlags()
    if data is None:
        flags.refuse_all_but("data_dir", what="data that is not named beside it")
    trained = load_run(run)
    if data is not None:
        origin = flags.origin(data)
    else:
        origin = trained.folder.read_origin()
        if flags.data_dir is not None:
            origin = origin.model_copy(update={"data_dir": flags.data_dir})
    splits = trained.load_again(origin)
    has_texts = splits.texts() is not None
    if sheet is not None and not (splits.has_pictures or has_texts):
        raise InvalidValueError(
            "--sheet shows images or texts, and these are features: leave it out"
        )
    found = trained.find_suspects(splits)
    table = suspects_frame(found, splits)
    write_frame(table, out, quotes_formulas=quote_formulas)
    console = Console(soft_wrap=True, highlight=False)
    expected = trained.expected_wrong(found)
    because = trained.noise.unknown_because
    if because is None:
        console.print(f"{len(table):,} labels, of which about {expected:,} are probably wrong")
    else:
        console.print(
            f"[yellow]note:[/] how many of the {len(table):,} labels are wrong is unknown, and "
            f"their ranking means little: {escape(because)}"
        )
    console.print(f"all labels, ranked: {escape(str(out))}")
    knows_structure = isinstance(trained.noise, EstimatedNoise | GivenTransition)
    if trained.result.chosen is None and not knows_structure:
        console.print(
            "[yellow]note:[/] this run had no bound, and its model may have memorized wrong "
            "labels: train another with noisebound fit DATA --out RUN, without --loss"
        )
    if splits.has_pictures:
        path = sheet or out.with_suffix(".png")
        save_figure(suspects_sheet(found, splits, most), path)
        console.print(f"the most suspect images: {escape(str(path))}")
    elif has_texts:
        path = sheet or out.with_suffix(".png")
        save_figure(text_suspects_sheet(found, splits, most), path)
        console.print(f"the most suspect texts: {escape(str(path))}")
