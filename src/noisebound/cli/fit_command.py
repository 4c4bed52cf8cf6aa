"""``noisebound fit``: train a classifier on noisy labels."""

import json as json_format
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, validators
from pydantic import field_validator
from rich.markup import escape

from noisebound.cli.messages import with_flags
from noisebound.cli.options import (
    BackboneName,
    Columns,
    Json,
    ReadingFlags,
    Source,
    Threads,
    arrange,
    as_share,
    command_line,
)
from noisebound.errors import InvalidValueError
from noisebound.system.console import Console
from noisebound.training.config import Precision, TrainingConfig

if TYPE_CHECKING:
    from noisebound.runs import Run

_FLAGS = {name: f"--{name.replace('_', '-')}" for name in TrainingConfig.model_fields}

_MAIN, _DATA, _COLUMNS, _NOISE, _TRAINING, _DEVICES, _OUTPUT = (
    Group.create_ordered(name)
    for name in ("Main options", "Data", "Columns", "Noise", "Training", "Devices", "Output")
)


_Weights = Annotated[Columns, Parameter(metavar="balanced|CLASS=WEIGHT...")]


class _Training(TrainingConfig):
    """The config as options; the transition matrix is read from a file."""

    transition: Annotated[tuple[tuple[float, ...], ...] | None, Parameter(parse=False)] = None
    class_weight: _Weights = ()  # type: ignore[assignment]

    @field_validator("class_weight", mode="before")
    @classmethod
    def _from_words(cls, given: Any) -> Any:
        return given

    _from_percent = field_validator("noise_rate", "validation_share", mode="before")(as_share)


class _Reading(ReadingFlags):
    """How to read the data, in the groups of this command."""


arrange(
    _Training,
    {
        "noise_rate": Parameter(group=_MAIN, metavar="RATE", show_choices=False),
        "recipe": Parameter(group=_MAIN, metavar="NAME", show_default="auto"),
        "epochs": Parameter(group=_MAIN),
        "loss": Parameter(group=_NOISE, metavar="NAME", show_default=False),
        "bound": Parameter(group=_NOISE),
        "bound_classes": Parameter(group=_NOISE),
        "bound_offset": Parameter(group=_NOISE),
        "cross_fit_epochs": Parameter(group=_NOISE),
        "model": Parameter(metavar="NAME"),
        "learning_rate": Parameter(metavar="RATE", show_choices=False),
    },
)
arrange(
    _Reading,
    dict.fromkeys(("target", "text", "test"), Parameter(group=_MAIN))
    | dict.fromkeys(("exclude", "id", "types"), Parameter(group=_COLUMNS)),
)


def fit(
    data: Annotated[Source, Parameter(group=_MAIN)],
    *,
    out: Annotated[Path, Parameter(group=_MAIN)],
    reading: Annotated[_Reading | None, Parameter(name="*", group=_DATA)] = None,
    backbone: Annotated[BackboneName, Parameter(group=_MAIN)] = "auto",
    config: Annotated[_Training | None, Parameter(name="*", group=_TRAINING)] = None,
    transition: Annotated[Path | None, Parameter(group=_NOISE)] = None,
    corrections: Annotated[Path | None, Parameter(group=_MAIN)] = None,
    resume: Annotated[bool, Parameter(negative=(), group=_MAIN)] = False,
    overwrite: Annotated[bool, Parameter(negative=(), group=_OUTPUT)] = False,
    devices: Annotated[str, Parameter(group=_DEVICES, metavar="NUMBER")] = "1",
    nodes: Annotated[int, Parameter(validator=validators.Number(gte=1), group=_DEVICES)] = 1,
    accelerator: Annotated[str, Parameter(group=_DEVICES, metavar="KIND")] = "auto",
    threads: Annotated[Threads, Parameter(group=_DEVICES)] = None,
    precision: Annotated[Precision, Parameter(group=_DEVICES)] = "32-true",
    logger: Annotated[Literal["csv", "tensorboard"] | None, Parameter(group=_OUTPUT)] = None,
    json: Annotated[Json, Parameter(group=_OUTPUT)] = False,
) -> None:
    """Train a robust classifier and save it to a folder.

    Parameters
    ----------
    out
        The folder for the model, metrics, checkpoints and the HTML report.
    transition
        A .csv or .npy file with a known transition matrix T[noisy, true]. It replaces the noise
            rate.
    overwrite
        Replace an existing run in the output folder.
    corrections
        The decisions.jsonl of a reviewed run. Checked labels are corrected and trusted, and
            unusable examples are left out.
    resume
        Continue an interrupted run in the output folder.
    devices
        The number of devices per machine, or auto for all. On the CPU, a device is a process with
            at least one core.
    nodes
        The number of machines.
    accelerator
        The kind of device, such as cpu or cuda, or auto for the fastest one.
    precision
        The number format of the computation.
    logger
        Also write the metrics in the format of a tracker.
    """
    from noisebound.entry import fit as run_fit
    from noisebound.system.memory import keep_freed_memory
    from noisebound.training import UnknownNoiseWarning
    from noisebound.training.devices import Devices, OneDevice, leave_ranks, use_threads

    is_usual = (devices, nodes, precision, logger) == ("1", 1, "32-true", None)
    if is_usual and accelerator in ("auto", "cpu"):  # Lightning takes seconds to import
        fabric: Devices = OneDevice(None if accelerator == "auto" else accelerator)
    else:
        from noisebound.cli.devices import launch

        fabric = launch(accelerator, devices, nodes, precision, logger, out)
    keep_freed_memory()
    use_threads(threads, fabric.world_size // nodes)
    given = config or _Training()
    training = {name: getattr(given, name) for name in given.model_fields_set}
    if transition is not None:
        training["transition"] = _read_matrix(transition)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownNoiseWarning)  # printed below as a note
            run = run_fit(
                data,
                out=out,
                **(reading or _Reading()).options.model_dump(),
                backbone=backbone,
                corrections=corrections,
                resume=resume,
                overwrite=overwrite,
                fabric=fabric,
                command=command_line(),
                **training,
            )
    except KeyboardInterrupt:
        if fabric.is_global_zero:
            console = Console(stderr=True, soft_wrap=True)
            console.print(f"interrupted; continue with --resume, in {escape(str(out))}")
        raise
    if fabric.is_global_zero:
        _print_run(run, as_json=json)
    leave_ranks(fabric)


def _read_matrix(path: Path) -> tuple[tuple[float, ...], ...]:
    import numpy as np

    try:
        is_binary = path.suffix.lower() == ".npy"
        matrix = np.load(path, allow_pickle=False) if is_binary else np.loadtxt(path, delimiter=",")
        rows: list[list[float]] = matrix.astype(float).tolist()
        return tuple(tuple(row) for row in rows)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(
            f"{path} must hold a matrix of numbers T[noisy, true], as .npy or separated by commas: "
            f"{error}"
        ) from error


def _print_run(run: "Run", *, as_json: bool) -> None:
    from noisebound.training.metrics import METRIC_LABELS

    result = run.result
    if as_json:
        record = result.model_dump(mode="json") | {"out": str(run.path)}
        print(json_format.dumps(record))  # noqa: T201
        return
    console = Console(soft_wrap=True, highlight=False)
    _print_noise(run, console)
    if result.checks is not None:
        console.print(result.checks.words)
    if result.choice is not None:
        console.print(f"recipe: {result.choice.label}; {result.choice.reason}")
    bound = "" if result.bound is None else f" (bound {result.bound:.3f})"
    final = result.final
    loss = "" if run.floor is None else f": training loss {final.train_loss:.3f}{bound}"
    console.print(f"after {final.epoch} epochs{loss}")
    for name, label in METRIC_LABELS.items():
        value = run.final(name)
        if value is not None:
            console.print(f"{label}: {value:.1%}")
    if result.memorizing_since is not None:
        console.print(
            f"[yellow]memorizing since epoch {result.memorizing_since}[/]: the training loss is "
            "below the floor given by the noise; bound it with +b"
        )
    if result.is_stuck:
        console.print(
            "[yellow]note:[/] the training loss is higher than the out-of-fold loss of a short "
            "plain training: train for more epochs, or lower the learning rate"
        )
    console.print(f"model, metrics and report.html: {escape(str(run.path))}")


def _print_noise(run: "Run", console: Console) -> None:
    from noisebound.estimation import EstimatedNoise

    noise, chosen = run.noise, run.result.chosen
    because = noise.unknown_because
    if because is not None:
        console.print(f"the noise is unknown: {escape(with_flags(because, _FLAGS))}")
    elif isinstance(noise, EstimatedNoise):
        console.print(f"estimated noise rate: {noise.estimate.summary}")
    for warning in noise.warnings:
        if warning != because:
            console.print(f"[yellow]note:[/] {escape(with_flags(warning, _FLAGS))}")
    if chosen is not None:
        reason = escape(with_flags(chosen.reason, _FLAGS))
        console.print(f"bound {chosen.level:.3f}: {reason}")
