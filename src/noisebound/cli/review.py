"""``noisebound suspects``, ``review`` and ``labels``: find wrong labels and correct them."""

import json
import webbrowser
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from noisebound.cli.options import QuoteFormulas, Reading, ReadingFlags, RunPath, TrainingSource
from noisebound.errors import InvalidValueError
from noisebound.system.console import print_note, print_text


def suspects(
    run: Annotated[
        Path,
        Parameter(
            help="The folder that `noisebound fit` wrote, or with --tokens a CoNLL or JSONL file."
        ),
    ],
    data: TrainingSource = None,
    *,
    out: Path,
    page: Path | None = None,
    most: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 64,
    tokens: Annotated[bool, Parameter(negative=())] = False,
    probs: Path | None = None,
    classes: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative=(), metavar="TAG...")
    ] = (),
    quote_formulas: QuoteFormulas = True,
    reading: Reading = None,
) -> None:
    """Rank the training labels of a run by the probability that they are wrong.

    Example: `noisebound suspects run --out s.csv`

    With --tokens, rank the labels of words in a CoNLL or JSONL file, and the spans that they mark.

    Example: `noisebound suspects train.conll --tokens --probs probs.npz --out s.csv`

    Parameters
    ----------
    out
        The .csv or .parquet file to write, with one row per example, most suspect first: its label,
            the probability that the label is wrong, and a suggested label. If examples have several
            labels, one row per example and label.
    page
        The .html file to show the most suspect examples in [default: beside the table].
    most
        The number of examples on the page.
    tokens
        Rank the labels of words: CoNLL has the word in the first column, its tag in the last one
            and blank lines between sentences; each line of JSONL has tokens, tags and probs.
    probs
        With --tokens, a .npz or .npy file of out-of-fold probabilities: one row per word of the
            file, or one array per sentence.
    classes
        With --tokens, the tags in the order of the probabilities' columns [default: the array
            classes of the .npz file].
    """
    from noisebound.cli.multi_label import suspect_labels
    from noisebound.estimation import EstimatedNoise, GivenTransition
    from noisebound.pages.page import write_page
    from noisebound.pages.suspects import suspects_page
    from noisebound.runs import MultiLabelRun
    from noisebound.runs.judgment import suspects_frame
    from noisebound.runs.predict import check_writable, write_frame

    check_writable(out)
    reading = reading or ReadingFlags()
    if tokens:
        from noisebound.cli.tokens import suspect_tokens

        reading.refuse_all_but("encoding", what="--tokens")
        if data is not None:
            raise InvalidValueError("--tokens takes one file: leave out DATA")
        suspect_tokens(run, probs, classes, reading.encoding, out, page, most, quote_formulas)
        return
    if probs is not None or classes:
        raise InvalidValueError("--probs and --classes need --tokens: a run has its own judgment")
    trained, splits = reading.load_run(run, data)
    place = page or out.with_suffix(".html")
    if isinstance(trained, MultiLabelRun):
        suspect_labels(trained, splits, out, place, most, quote_formulas)
        return
    found = trained.judgment(splits).suspects
    table = suspects_frame(found, splits)
    write_frame(table, out, quotes_formulas=quote_formulas)
    because = trained.noise.unknown_because
    if because is None:
        expected = trained.expected_wrong(found)
        headline = f"{len(table):,} labels, of which about {expected:,} are probably wrong"
        print_text(headline)
    else:
        headline = f"The noise of these {len(table):,} labels is unknown, and their ranking "
        headline += f"means little: {because}"
        print_note(headline)
    print_text(f"all labels, ranked: {out}")
    knows_structure = isinstance(trained.noise, EstimatedNoise | GivenTransition)
    if trained.result.chosen is None and not knows_structure:
        print_note(
            "this run had no bound, and its model may have memorized wrong labels: train another "
            "with noisebound fit DATA --out RUN, without --loss"
        )
    write_page(suspects_page(found, splits, most, f"{headline}.", out.name), place)
    print_text(f"the most suspect examples: {place}")


def review(
    run: RunPath,
    data: TrainingSource = None,
    *,
    port: Annotated[int | None, Parameter(validator=validators.Number(gte=1, lte=65535))] = None,
    open: bool = True,
    by: Annotated[str | None, Parameter(metavar="NAME")] = None,
    id: Annotated[str | None, Parameter(metavar="COLUMN")] = None,
    label: Annotated[str | None, Parameter(metavar="NAME")] = None,
    second_opinion: Annotated[
        int, Parameter(metavar="NUMBER", validator=validators.Number(gte=0), show_default=False)
    ] = 0,
) -> None:
    """Check a run's labels in the browser: first a random sample, then the suspects.

    The page is accessible from this machine only. Each decision is saved immediately.

    Example: `noisebound review run`

    Parameters
    ----------
    port
        The port to listen on [default: a free port].
    open
        Open the page in the browser.
    by
        Your name, which is saved with each decision [default: the name of the user account].
    id
        The column that identifies the rows [default: the --id of `fit`].
    label
        Check one label alone, in a run with several labels per example [default: all together].
    second_opinion
        Label NUMBER random examples again without seeing their labels, in place of a review.
            Agreement of the two labels gives the noise rate.
    """
    from noisebound.cli.multi_label import one_run
    from noisebound.pages.review.labels_session import LabelsSession
    from noisebound.pages.review.serve import ReviewServer, redirect_file
    from noisebound.pages.review.session import ReviewSession
    from noisebound.review.decisions import current_user
    from noisebound.runs import MultiLabelRun, load_run

    found, who = load_run(run), by or current_user()
    session: ReviewSession | LabelsSession
    if isinstance(found, MultiLabelRun) and label is None and not second_opinion:
        session = LabelsSession(found, found.training_data(data).named_by(id), who)
        kept = found.folder.labels
    else:
        trained = one_run(found, label)
        kept = trained.folder.decisions
        session = ReviewSession(
            trained, trained.training_data(data).named_by(id), who, second_opinion
        )
    server = ReviewServer(session, port)

    with redirect_file(server.address) if open else nullcontext() as file:

        def announce(address: str) -> None:
            print_text(f"the review page: {address}")
            print_text(f"decisions are kept in {kept}")
            print_text("Ctrl-C ends the server")
            if file is not None:
                webbrowser.open(file.as_uri())

        server.run(announce)


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

    With several labels per example by annotators, the table also has their consensus and its
    probability. If examples have several labels at once, it has a column of 0 and 1 per label.

    Example: `noisebound labels run --out labels.csv`

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
    from noisebound.runs import MultiLabelRun
    from noisebound.runs.judgment import consensus_columns
    from noisebound.runs.predict import check_writable, write_frame
    from noisebound.system.files import write_text

    if out is None and read is None:
        raise InvalidValueError("name a file to write with --out, or one to read with --read")
    if out is not None and format == "table":
        check_writable(out)
    elif out is not None and out.suffix.lower() != ".json":
        raise InvalidValueError(f"--out for {format} must be a .json file, got {out.name}")
    trained, splits = (reading or ReadingFlags()).load_run(run, data)
    if isinstance(trained, MultiLabelRun):
        if format != "table" or read is not None or out is None:
            raise InvalidValueError(
                "a run with several labels is exported as a table; for another format, export the "
                f"run of one label, such as {trained.runs[trained.labels[0]].path}"
            )
        table = trained.corrected_labels(splits, drop_unusable=drop_unusable)
        write_frame(table, out, quotes_formulas=quote_formulas)
        changed = int((table["changed"] != "").sum())
        print_text(f"labels of {len(table):,} examples, {changed:,} of them corrected: {out}")
        return
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
        found = trained.judgment(splits).annotators if splits.train.votes is not None else None
        consensus = None if found is None else consensus_columns(found, splits.train)
        table = corrected_labels(decisions, drop_unusable=drop_unusable, consensus=consensus)
        write_frame(table, out, quotes_formulas=quote_formulas)
        changed = int((table["label"] != table["corrected"]).sum())
        print_text(f"{len(table):,} labels, of which {changed:,} are corrected: {out}")
        return
    tasks = label_studio_tasks if format == "label-studio" else argilla_records
    found_tasks = tasks(trained.review_queue(splits), splits)
    write_text(out, json.dumps(found_tasks, ensure_ascii=False, indent=1) + "\n")
    print_text(f"{len(splits.train):,} examples for {format}: {out}")
    if format == "label-studio":
        config = out.with_suffix(".xml")
        write_text(config, label_studio_config(splits))
        print_text(f"the project's labeling configuration: {config}")
