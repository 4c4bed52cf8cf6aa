"""``noisebound labels``: export the labels after a review, and import answers of other tools."""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from noisebound.cli.options import QuoteFormulas, Reading, ReadingFlags, RunPath, TrainingSource
from noisebound.errors import InvalidValueError
from noisebound.system.console import print_note, print_text


def labels(
    run: RunPath,
    data: TrainingSource = None,
    *,
    out: Path | None = None,
    format: Literal["table", "label-studio", "argilla"] = "table",
    drop_unusable: Annotated[bool, Parameter(negative=())] = False,
    read: Path | None = None,
    quote_formulas: QuoteFormulas = True,
    reading: Reading = None,
) -> None:
    """Export each training label of a run: as given, as corrected, and the reason.

    Parameters
    ----------
    out
        The file to write: .csv or .parquet for a table, .json for other tools.
    format
        The format: a table, or tasks to import into Label Studio or argilla.
    drop_unusable
        Leave out examples that were marked as unusable.
    read
        An export of Label Studio or argilla to import first. Its answers become decisions.
    """
    from noisebound.review.exports import (
        argilla_records,
        corrected_labels,
        label_studio_config,
        label_studio_tasks,
        read_answers,
    )
    from noisebound.runs.predict import write_frame
    from noisebound.system.files import write_text

    _check(out, format, read)
    trained, splits = (reading or ReadingFlags()).load_run(run, data)
    decisions = trained.decisions_about(splits)
    if read is not None:
        made = read_answers(read, trained.review_queue(splits))
        print_text(f"{len(made):,} decisions were read from {read}")
        decisions.refresh()
    for note in decisions.notes:
        print_note(note)
    if out is None:
        return
    if format == "table":
        table = corrected_labels(decisions, drop_unusable=drop_unusable)
        write_frame(table, out, quotes_formulas=quote_formulas)
        changed = int((table["label"] != table["corrected"]).sum())
        print_text(f"{len(table):,} labels, of which {changed:,} are corrected: {out}")
        return
    queue = trained.review_queue(splits)
    tasks = label_studio_tasks if format == "label-studio" else argilla_records
    write_text(out, json.dumps(tasks(queue, splits), ensure_ascii=False, indent=1) + "\n")
    print_text(f"{len(queue.data):,} examples for {format}: {out}")
    if format == "label-studio":
        config = out.with_suffix(".xml")
        write_text(config, label_studio_config(splits))
        print_text(f"the project's labeling configuration: {config}")


def _check(out: Path | None, format: str, read: Path | None) -> None:
    if out is None and read is None:
        raise InvalidValueError("name a file to write with --out, or one to read with --read")
    if out is not None and format == "table":
        from noisebound.runs.predict import check_writable

        check_writable(out)
    if out is not None and format != "table" and out.suffix.lower() != ".json":
        raise InvalidValueError(f"--out for {format} must be a .json file, got {out.name}")
