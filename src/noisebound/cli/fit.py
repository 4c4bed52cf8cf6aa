"""``noisebound fit``: train a classifier on noisy labels."""

import logging
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, validators
from pydantic import SkipValidation

from noisebound.cli.options import (
    BackboneName,
    Columns,
    Json,
    ReadingFlags,
    Source,
    Threads,
    arrange,
    command_line,
)
from noisebound.errors import InvalidValueError
from noisebound.system.console import print_json, print_note, print_text, spell_arguments
from noisebound.training.config import Precision, TrainingConfig
from noisebound.training.loggers import LoggerName

if TYPE_CHECKING:
    from noisebound.runs import Run
    from noisebound.training.devices import Devices

_MAIN, _DATA, _COLUMNS, _NOISE, _TRAINING, _DEVICES, _OUTPUT = (
    Group.create_ordered(name)
    for name in ("Main options", "Data", "Columns", "Noise", "Training", "Devices", "Output")
)


class _Training(TrainingConfig):
    """The config as options; its validators read these words."""

    transition: Annotated[Path | None, SkipValidation, Parameter(group=_NOISE)] = None  # type: ignore[assignment]
    class_weight: Annotated[Columns, SkipValidation] = ()  # type: ignore[assignment]


class _Reading(ReadingFlags):
    """How to read the data, in the groups of this command."""


arrange(
    _Training,
    {
        "noise_rate": Parameter(group=_MAIN, metavar="RATE", show_choices=False),
        "recipe": Parameter(group=_MAIN, metavar="NAME", show_default="auto"),
        "learner": Parameter(group=_MAIN, metavar="NAME", show_choices=False),
        "epochs": Parameter(group=_MAIN),
        "loss": Parameter(group=_NOISE, metavar="NAME", show_default=False),
        "bound": Parameter(group=_NOISE, metavar="LEVEL"),
        "bound_offset": Parameter(group=_NOISE),
        "class_weight": Parameter(metavar="balanced|CLASS=WEIGHT..."),
        "model": Parameter(metavar="NAME"),
        "learning_rate": Parameter(metavar="RATE", show_choices=False),
    }
    | dict.fromkeys(("quick", "unfreeze", "augment"), Parameter(negative=()))
    | dict.fromkeys(("bound_classes", "cross_fit_epochs"), Parameter(parse=False)),  # in `nb.fit`
)
arrange(
    _Reading,
    dict.fromkeys(("target", "test"), Parameter(group=_MAIN))
    | dict.fromkeys(
        ("targets", "text", "exclude", "id", "groups", "types", "item", "annotator"),
        Parameter(group=_COLUMNS),
    ),
)


def fit(
    data: Annotated[Source, Parameter(group=_MAIN)],
    *,
    out: Annotated[Path, Parameter(group=_MAIN)],
    reading: Annotated[_Reading | None, Parameter(name="*", group=_DATA)] = None,
    backbone: Annotated[BackboneName, Parameter(group=_MAIN)] = "auto",
    config: Annotated[_Training | None, Parameter(name="*", group=_TRAINING)] = None,
    corrections: Annotated[Path | None, Parameter(group=_DATA)] = None,
    resume: Annotated[bool, Parameter(negative=(), group=_MAIN)] = False,
    overwrite: Annotated[bool, Parameter(negative=(), group=_OUTPUT)] = False,
    devices: Annotated[str, Parameter(group=_DEVICES, metavar="NUMBER")] = "1",
    nodes: Annotated[int, Parameter(validator=validators.Number(gte=1), group=_DEVICES)] = 1,
    accelerator: Annotated[str, Parameter(group=_DEVICES, metavar="KIND")] = "auto",
    threads: Annotated[Threads, Parameter(group=_DEVICES)] = None,
    n_jobs: Annotated[int, Parameter("--jobs", group=_DEVICES, metavar="NUMBER")] = -1,
    precision: Annotated[Precision, Parameter(group=_DEVICES)] = "32-true",
    logger: Annotated[LoggerName | None, Parameter(group=_OUTPUT)] = None,
    json: Annotated[Json, Parameter(group=_OUTPUT)] = False,
) -> None:
    """Train a robust classifier and save it to a folder.

    By default, the noise is estimated, and trials choose what to train.

    Example: `noisebound fit photos/ --out run`

    Parameters
    ----------
    out
        The folder to write: the model, metrics, checkpoints and an HTML report.
    corrections
        The decisions.jsonl of a reviewed run. Checked labels are corrected and trusted, and
            unusable examples are left out. With --targets, the folder of that run.
    resume
        Continue an interrupted run in the output folder.
    overwrite
        Replace an existing run in the output folder.
    devices
        The number of devices per machine, or auto for all. On a CPU, each device is a process.
    nodes
        The number of machines.
    accelerator
        The kind of device, such as cpu or cuda, or auto for the fastest one.
    n_jobs
        The number of processes for trials, -1 for one per core. The results do not depend on it.
    precision
        The number format: 32-bit, 64-bit, or mixed with 16-bit numbers.
    logger
        Also give the metrics to a tracker. CSV files and TensorBoard's are in logs/ in the output
            folder.
    """
    from noisebound.cli.multi_label import labels_record, print_labels
    from noisebound.entry import fit as run_fit
    from noisebound.runs import MultiLabelRun
    from noisebound.training import UnknownNoiseWarning
    from noisebound.training.devices import keep_freed_memory, leave_ranks, use_threads

    fabric = _launch(accelerator, devices, nodes, precision)
    keep_freed_memory()
    use_threads(threads, fabric.world_size // nodes)
    given = config or _Training()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownNoiseWarning)  # printed below as a note
            run = run_fit(
                data,
                out=out,
                **dict((reading or _Reading()).options),
                backbone=backbone,
                corrections=corrections,
                resume=resume,
                overwrite=overwrite,
                fabric=fabric,
                n_jobs=n_jobs,
                logger=logger,
                command=command_line(),
                **{name: getattr(given, name) for name in given.model_fields_set},
            )
    except KeyboardInterrupt:
        if fabric.is_global_zero:
            print_note(f"interrupted; continue with --resume, in {out}")
        raise
    if isinstance(run, MultiLabelRun):
        if fabric.is_global_zero:
            print_json(labels_record(run)) if json else print_labels(run)
    elif fabric.is_global_zero and json:
        scores = run.scores.model_dump(mode="json")
        print_json(run.result.model_dump(mode="json") | {"scores": scores, "out": str(run.path)})
    elif fabric.is_global_zero:
        _print_run(run)
    leave_ranks(fabric)


def _launch(
    accelerator: str,
    devices: str,
    nodes: int,
    precision: Precision,
) -> "Devices":
    """Start the processes of a training, and return the link between them."""
    from noisebound.training.devices import OneDevice

    if not re.fullmatch(r"auto|-1|[1-9]\d*|\d+(,\d+)+", devices):
        raise InvalidValueError(
            f"`devices` must be a number of at least 1 or auto, got {devices!r}"
        )
    is_usual = (devices, nodes, precision) == ("1", 1, "32-true")
    if is_usual and accelerator in ("auto", "cpu"):  # Lightning takes seconds to import
        return OneDevice(None if accelerator == "auto" else accelerator)
    from lightning_fabric import Fabric
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # no banner per rank
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=int(devices) if devices.isdigit() else devices,
            num_nodes=nodes,
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError, MisconfigurationException) as error:
        raise InvalidValueError(str(error)) from error  # such as missing devices
    processes, cores = fabric.world_size // nodes, os.cpu_count() or 1
    if fabric.device.type == "cpu" and processes > cores:
        raise InvalidValueError(
            f"`devices` must be at most {cores} here, one per core of this machine; got {processes}"
        )
    fabric.launch()
    return fabric


def _print_run(run: "Run") -> None:
    from noisebound.training.metrics import METRIC_LABELS

    result, final = run.result, run.result.final
    _print_noise(run)
    if result.checks is not None:
        print_text(result.checks.words)
    choice = result.choice
    if choice is not None and len(choice.members) == 1:
        print_text(f"trained: {choice.label}; {choice.reason}")
    elif choice is not None:
        print_text(
            f"trained: the average of {len(choice.members)} models, which predicts "
            f"{choice.agreement:.1%} of the held-out labels; alone they predict:"
        )
        for each in choice.members:
            print_text(f"  {each.agreement:.1%}  {choice.described(each)}")
    if choice is None or choice.is_network:
        bound = "" if result.bound is None else f" (bound {result.bound:.3f})"
        loss = "" if run.floor is None else f": training loss {final.train_loss:.3f}{bound}"
        print_text(f"after {final.epoch} epoch{'' if final.epoch == 1 else 's'}{loss}")
    for name, label in METRIC_LABELS.items():
        value = run.final(name)
        if value is not None:
            print_text(f"{label}: {value:.1%}")
    print_text(f"accuracy on true labels: {spell_arguments(run.scores.words)}")
    if result.memorizing_since is not None:
        print_text(
            f"memorizing since epoch {result.memorizing_since}: the training loss is below the "
            "floor given by the noise; bound it with +b"
        )
    if result.is_stuck:
        print_text(
            "note: the training loss is higher than the out-of-fold loss of a short plain "
            "training: train for more epochs, or lower the learning rate"
        )
    print_text(f"model, metrics and report.html: {run.path}")


def _print_noise(run: "Run") -> None:
    from noisebound.cli.estimate import print_annotators
    from noisebound.estimation import EstimatedNoise

    noise, chosen = run.noise, run.result.chosen
    because = noise.unknown_because
    if because is not None:
        print_text(f"the noise is unknown: {spell_arguments(because)}")
    elif isinstance(noise, EstimatedNoise):
        print_text(f"estimated noise rate: {noise.estimate.summary}")
        if noise.annotators is not None:
            print_text(f"of the majority votes, {noise.rate:.1%} are wrong")
    if run.result.of_annotators is not None:
        print_annotators(run.result.of_annotators, run.saved_model.card.class_names)
    for warning in noise.warnings:
        if warning != because:
            print_text(f"note: {spell_arguments(warning)}")
    if chosen is not None:
        print_text(f"bound {chosen.level:.3f}: {spell_arguments(chosen.reason)}")
