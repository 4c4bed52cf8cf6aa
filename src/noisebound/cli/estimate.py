"""``noisebound estimate``: estimate how noisy the labels of a data set are."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from noisebound.cli.options import (
    BackboneName,
    Json,
    Reading,
    ReadingFlags,
    Source,
    Threads,
    show_only,
)
from noisebound.data.options import validated
from noisebound.errors import DataError, InvalidValueError
from noisebound.estimation.names import EstimationMethod
from noisebound.system.console import Console, print_json, print_note, print_text, spell_arguments
from noisebound.training.config import TrainingConfig

if TYPE_CHECKING:
    import polars as pl

    from noisebound.data import Dataset
    from noisebound.estimation import AnnotatorEstimate, Noise, NoiseEstimate

_CONFUSIONS = 8  # the most that are listed; heuristic
_ANNOTATORS = 20  # the most that are listed; heuristic
_RARE = 0.005  # rarer confusions would be rounded to 0 %


class _Training(TrainingConfig):
    """The training of the networks behind the estimate, without the options on the noise."""


show_only(
    _Training,
    *("batch_size", "seed"),
    augment=Parameter(negative=()),
    model=Parameter(metavar="NAME"),
    learning_rate=Parameter(metavar="RATE", show_choices=False),
    epochs=Parameter(
        help="The number of epochs that you would pass to `fit`. The networks behind the "
        "estimate train for about a quarter of them."
    ),
)


def estimate(
    data: Source,
    *,
    method: EstimationMethod = "agreement",
    probs: Path | None = None,
    config: Annotated[_Training | None, Parameter(name="*", group="Training")] = None,
    reading: Reading = None,
    backbone: BackboneName = "auto",
    threads: Threads = None,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Estimate how many labels are wrong, and which classes are confused.

    `noisebound fit` makes the same estimate before it trains. For the folder of a run, the estimate
    of that run is printed; after `noisebound review run --second-opinion 200`, that of both labels.

    Example: `noisebound estimate photos/`

    Parameters
    ----------
    method
        The estimator. confident requires the package cleanlab.
    probs
        A .npy file with out-of-fold class probabilities, one row per training example, in the order
            of the data. By default, two networks are trained, each on one half of the examples.
    out
        A .json file to write the estimate to, including the transition matrix.
    """
    from noisebound.cli.multi_label import noise_of_labels
    from noisebound.estimation import NoiseEstimate, estimate_noise
    from noisebound.estimation.repeated import noise_of_repeated
    from noisebound.estimation.transitions import require_cleanlab
    from noisebound.features import load_for_training
    from noisebound.runs import MultiLabelRun, load_run
    from noisebound.runs.folder import RunFolder
    from noisebound.runs.noise_record import estimate_record, noise_record
    from noisebound.search import estimate_label_noise
    from noisebound.search.problem import takes_pixels, with_head
    from noisebound.system.files import write_json
    from noisebound.training.devices import keep_freed_memory, use_threads

    use_threads(threads)
    keep_freed_memory()
    repeated = None
    if probs is not None:
        probs.stat()  # if it is missing, before the data is read
    is_run = RunFolder(data).result.exists() or RunFolder(data).is_of_labels
    if is_run:
        if probs is not None or method != "agreement":
            raise InvalidValueError("a run has its own estimate: leave out --probs and --method")
        run = load_run(data)
        if isinstance(run, MultiLabelRun):
            _show_labels(run.noise, out, json=json)
            return
        noise: Noise | NoiseEstimate = run.result.noise
        if run.folder.decisions.exists():
            with suppress(DataError):  # such as data that was in memory
                noise = run.second_opinion() or noise
        class_names = run.saved_model.card.class_names
    else:
        if method == "confident":
            require_cleanlab()
        given = (config or _Training()).model_dump(exclude_unset=True)
        training = validated(TrainingConfig, given)
        splits, _ = load_for_training(
            data,
            "none" if probs is not None and backbone == "auto" else backbone,
            (reading or ReadingFlags()).options,
            is_from_pixels=takes_pixels(training),
            log=print_note,
        )
        train, class_names = splits.train, splits.train.class_names
        if train.label_matrix is not None:
            if probs is not None:
                raise InvalidValueError("`probs` is for one label per example: leave it out")
            found_noise = noise_of_labels(splits, with_head(training, splits), method)
            _show_labels(found_noise, out, json=json)
            return
        if train.votes is not None and splits.is_labels_alone:
            names = train.annotators or None
            noise = estimate_noise(None, train.votes, method, annotators=names)
        else:
            for note in splits.with_duplicates_together().notes[len(splits.notes) :]:
                print_note(note)
            repeated = noise_of_repeated(train.labels, splits.duplicates.sets, train.num_classes)
            if probs is None:
                noise = estimate_label_noise(splits, with_head(training, splits), method=method)
            else:
                noise = _from_probabilities(probs, train, method)
    found: NoiseEstimate | None
    if isinstance(noise, NoiseEstimate):
        found, because, record = noise, noise.diagnostics.rejection, estimate_record(noise)
    else:
        found, because, record = noise.estimate, noise.unknown_because, noise_record(noise)
    if repeated is not None:
        record["duplicates"] = asdict(repeated)
    if out is not None:
        write_json(out, record)
    if json:
        print_json(record)
        return
    if because is not None:
        print_text(f"the noise is unknown: {spell_arguments(because)}", style="bold")
    elif found is not None:
        _print(found, record, class_names)
    elif record.get("rate") is not None:
        print_text(f"given noise rate: {record['rate']:.1%}", style="bold")
    else:
        print_text("the run did not need the noise and has not estimated it")
    if repeated is not None:
        print_text(repeated.words)
    if found is not None:
        count = f"{found.labels_to_check:,}"
        print_text(f"to know the rate to ±3 points, check {count} labels by hand, at random")
        for warning in found.diagnostics.warnings:
            if warning != because:
                print_note(warning)


def _show_labels(noise: "pl.DataFrame", out: Path | None, *, json: bool) -> None:
    """Print the noise of several labels, and write it to a file if there is one."""
    from noisebound.cli.multi_label import print_noise
    from noisebound.system.files import write_json

    record = {"labels": noise.to_dicts()}
    if out is not None:
        write_json(out, record)
    print_json(record) if json else print_noise(noise)


def print_annotators(found: "AnnotatorEstimate", class_names: Sequence[str]) -> None:
    """Print a table of those with most labels, and how many consensus labels are wrong."""
    from noisebound.runs.judgment import annotators_frame

    frame = annotators_frame(found, class_names)
    header = ("annotator", "labels", "wrong", "95% interval", "agreement", "most frequent mistake")
    table = Table(*header, box=None, pad_edge=False)
    for row in frame.sort("labels", descending=True).head(_ANNOTATORS).iter_rows():
        name, count, rate, low, high, kappa, mistake = row
        interval = f"{low:.1%} to {high:.1%}"
        agreement = "" if kappa is None else f"{kappa:.2f}"
        cells = f"{count:,}", f"{rate:.1%}", interval, agreement, escape(mistake or "")
        table.add_row(escape(name), *cells)
    Console(soft_wrap=True).print(table)
    if len(frame) > _ANNOTATORS:
        print_text(f"… and {len(frame) - _ANNOTATORS} more annotators")
    print_text(f"consensus labels that are wrong: {found.consensus_rate:.1%}")


def _from_probabilities(path: Path, train: "Dataset", method: EstimationMethod) -> "NoiseEstimate":
    from noisebound.data.arrays import read_inputs
    from noisebound.estimation import estimate_noise

    given = read_inputs(path)
    if given.shape != (len(train), train.num_classes):
        raise DataError(
            f"{path} must have one row for each of {len(train)} training examples and one column "
            f"for each of {train.num_classes} classes, got shape {given.shape}"
        )
    if train.votes is None:
        return estimate_noise(given, train.labels, method)
    return estimate_noise(given, train.votes, method, annotators=train.annotators or None)


def _print(found: "NoiseEstimate", record: dict[str, Any], names: tuple[str, ...]) -> None:
    about = f"by {found.diagnostics.method}, {found.diagnostics.examples:,} examples"
    print_text(f"estimated noise rate: {found.summary}; {about}", style="bold")
    print_text(found.words)
    if "floor" in record:
        level, error = record["floor"]["level"], record["floor"]["standard_error"]
        print_text(f"measured floor of the cross-entropy: {level:.3f} ± {error:.3f}")
    if found.annotators is not None:
        print_annotators(found.annotators, names)
    wrong = found.transition.clone().fill_diagonal_(0)
    top = wrong.flatten().topk(min(_CONFUSIONS, wrong.numel()))
    listed = [
        f"  {share:.1%} of {names[cell % len(wrong)]} are labeled {names[cell // len(wrong)]}"
        for share, cell in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        if share >= _RARE
    ]
    if listed:
        print_text("\n".join(["most frequent confusions:", *listed]))
