"""``noisebound fit``: train a classifier on noisy labels."""

import json as json_format
import logging
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter, validators
from lightning_fabric import Fabric
from lightning_fabric.loggers.csv_logs import CSVLogger
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pydantic import field_validator
from rich.markup import escape

from noisebound.cli.messages import with_flags
from noisebound.cli.options import (
    BackboneName,
    Json,
    Names,
    Reading,
    ReadingFlags,
    Threads,
    command_line,
)
from noisebound.console import Console
from noisebound.entry import fit as run_fit
from noisebound.errors import InvalidValueError
from noisebound.estimation import EstimatedNoise
from noisebound.runs import Run
from noisebound.training import TrainingConfig, UnknownNoiseWarning
from noisebound.training.config import Precision, settings_of
from noisebound.training.cores import usable_cores, use_threads
from noisebound.training.metrics import METRIC_LABELS
from noisebound.training.ranks import leave_ranks

_FLAGS = {name: f"--{name.replace('_', '-')}" for name in TrainingConfig.model_fields}


class _Options(TrainingConfig):
    """The config as options; a matrix does not fit on a command line and is read from a file."""

    transition: Annotated[tuple[tuple[float, ...], ...] | None, Parameter(parse=False)] = None
    class_weight: Names = ()  # type: ignore[assignment]  # balanced, or CLASS=WEIGHT for each

    @field_validator("class_weight", mode="before")
    @classmethod
    def _from_words(cls, given: Any) -> Any:
        return given


def fit(
    data: str,
    *,
    out: Path,
    config: Annotated[_Options | None, Parameter(name="*")] = None,
    transition: Path | None = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    reading: Reading = None,
    backbone: BackboneName = None,
    corrections: Path | None = None,
    devices: str = "1",
    nodes: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 1,
    accelerator: str = "auto",
    threads: Threads = None,
    precision: Precision = "32-true",
    logger: Literal["csv", "tensorboard"] | None = None,
    json: Json = False,
) -> None:
    """Train a robust classifier and write it to a folder.

    Parameters
    ----------
    data
        The name of a data set; or a folder of images or of .txt files, or a CSV, TSV, JSONL,
            Parquet, Excel, npz or npy file.
    out
        The folder for the model, its metrics, its checkpoints and its report.
    transition
        A .csv or .npy file with the transition matrix T[noisy, true], if it is known. It replaces
            the noise rate.
    resume
        Continue the run in the folder.
    corrections
        The decisions.jsonl of a run whose labels were reviewed: checked labels are corrected and
            trusted, and unusable examples are left out.
    devices
        The number of devices per machine, or auto for all. On the CPU, a device is a process with
            at least one core of its own.
    nodes
        The number of machines.
    accelerator
        The kind of device, such as cpu or cuda; auto for the best there is.
    precision
        The type of numbers to compute with.
    logger
        Also write the metrics for a tracker.
    """
    fabric = _fabric(accelerator, devices, nodes, precision, _loggers(logger, out))
    use_threads(threads, fabric.world_size // nodes)
    settings = settings_of(config or _Options())
    if transition is not None:
        settings["transition"] = _read_matrix(transition)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownNoiseWarning)  # printed below, as a note
            run = run_fit(
                data,
                out=out,
                **(reading or ReadingFlags()).options.model_dump(),
                backbone=backbone,
                corrections=corrections,
                model=(config or _Options()).model,
                resume=resume,
                fabric=fabric,
                command=command_line(),
                **settings,
            )
    except KeyboardInterrupt:
        if fabric.is_global_zero:
            console = Console(stderr=True, soft_wrap=True)
            console.print(f"interrupted; continue with --resume, in {escape(str(out))}")
        raise
    if fabric.is_global_zero:
        _print_run(run, as_json=json)
    leave_ranks(fabric)


def _fabric(
    accelerator: str, devices: str, nodes: int, precision: Precision, loggers: list[Logger]
) -> Fabric:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it prints a banner per rank
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=int(devices) if devices.isdigit() else devices,
            num_nodes=nodes,
            precision=precision,
            loggers=loggers,
        )
    except (RuntimeError, ValueError, TypeError, MisconfigurationException) as error:
        raise InvalidValueError(str(error)) from error  # such as devices that are not there
    _check_devices(fabric, nodes)
    fabric.launch()
    return fabric


def _check_devices(fabric: Fabric, nodes: int) -> None:
    """Refuse more processes than cores, which would only get in each other's way."""
    processes, cores = fabric.world_size // nodes, usable_cores()
    if fabric.device.type == "cpu" and processes > cores:
        raise InvalidValueError(
            f"`devices` must be at most {cores} here, one per core of this machine; got {processes}"
        )


def _loggers(name: str | None, out: Path) -> list[Logger]:
    if name == "csv":
        return [CSVLogger(out, name="logs")]
    if name == "tensorboard":
        return [TensorBoardLogger(out, name="logs")]
    return []


def _read_matrix(path: Path) -> tuple[tuple[float, ...], ...]:
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


def _print_run(run: Run, *, as_json: bool) -> None:
    result = run.result
    if as_json:
        record = result.record() | {"out": str(run.path)}
        print(json_format.dumps(record))  # noqa: T201
        return
    console = Console(soft_wrap=True, highlight=False)
    _print_noise(run, console)
    if result.checks is not None:
        console.print(result.checks.words)
    if result.choice is not None:
        console.print(f"recipe: {result.choice.label}; {result.choice.reason}")
    floor = "" if result.bound is None else f" (bound {result.bound:.3f})"
    final = result.final
    console.print(f"after {final.epoch} epochs: training loss {final.train_loss:.3f}{floor}")
    for name, label in METRIC_LABELS.items():
        value = run.final(name)
        if value is not None:
            console.print(f"{label}: {value:.1%}")
    if result.memorizing_since is not None:
        console.print(
            f"[yellow]memorizing since epoch {result.memorizing_since}[/]: the training loss has "
            "been below the floor that follows from the noise; bound it with +b"
        )
    if result.is_stuck:
        console.print(
            "[yellow]note:[/] the training loss is higher than the out-of-fold loss of a short "
            "plain training: train for more epochs, or lower the learning rate"
        )
    console.print(f"model, metrics and report.html: {escape(str(run.path))}")


def _print_noise(run: Run, console: Console) -> None:
    noise, chosen = run.noise, run.result.chosen
    because = noise.unknown_because
    if because is not None:
        console.print(f"the noise is unknown: {escape(with_flags(because, _FLAGS))}")
    elif isinstance(noise, EstimatedNoise):
        low, high = noise.interval
        console.print(
            f"estimated noise rate {noise.rate:.3f}, with 95 % confidence between {low:.3f} and "
            f"{high:.3f}"
        )
    for warning in noise.warnings:
        if warning != because:
            console.print(f"[yellow]note:[/] {escape(with_flags(warning, _FLAGS))}")
    if chosen is not None:
        reason = escape(with_flags(chosen.reason, _FLAGS))
        console.print(f"bound {chosen.level:.3f}: {reason}")
