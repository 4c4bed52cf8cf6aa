"""``noisebound fit``: from data to a robust model."""

import json as json_format
import logging
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter
from lightning_fabric import Fabric
from lightning_fabric.loggers.csv_logs import CSVLogger
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from rich.console import Console
from rich.markup import escape

from noisebound.cli.options import DataDir, ImageSize, Json, SkipBad, Target, command_line
from noisebound.data import DataOrigin, Splits
from noisebound.errors import InvalidValueError
from noisebound.report.command import save_command
from noisebound.report.page import write_page
from noisebound.training import FitResult, TrainingConfig
from noisebound.training import fit as run_fit
from noisebound.training.ranks import leave_ranks
from noisebound.training.run_page import run_page

Precision = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]


class _Options(TrainingConfig):
    """The config, but for what a command line has no room for."""

    transition: Annotated[tuple[tuple[float, ...], ...] | None, Parameter(parse=False)] = None


def fit(
    data: str,
    *,
    out: Path,
    config: Annotated[_Options | None, Parameter(name="*")] = None,
    transition: Path | None = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    target: Target = None,
    image_size: ImageSize = None,
    skip_bad: SkipBad = False,
    data_dir: DataDir = None,
    devices: str = "1",
    nodes: int = 1,
    accelerator: str = "auto",
    precision: Precision = "32-true",
    logger: Literal["csv", "tensorboard"] | None = None,
    json: Json = False,
) -> None:
    """Train a robust classifier and leave it in a folder.

    Parameters
    ----------
    data
        A known data set; or a folder of images, a CSV, TSV, Parquet, npz or npy file.
    out
        The folder for the model, its measurements and its checkpoints.
    transition
        A .csv or .npy file with the transition matrix T[noisy, true], where it is known; in place
            of the noise rate.
    resume
        Go on with the run in that folder.
    devices
        How many devices, or "auto".
    nodes
        How many machines.
    accelerator
        cpu, cuda, …, or auto.
    precision
        Of the computation.
    logger
        Write the measurements for a tracker too.
    """
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its banner of ranks
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=int(devices) if devices.isdigit() else devices,
            num_nodes=nodes,
            precision=precision,
            loggers=_loggers(logger, out),
        )
    except RuntimeError as error:  # such as devices that are not there
        raise InvalidValueError(str(error)) from error
    fabric.launch()
    origin = DataOrigin(
        data=data, data_dir=data_dir, target=target, image_size=image_size, skip_bad=skip_bad
    )
    splits = origin.load()
    settings = TrainingConfig.model_validate((config or _Options()).model_dump())
    if transition is not None:
        settings = settings.model_copy(update={"transition": _read_matrix(transition)})
    console = Console(stderr=True, soft_wrap=True)
    try:
        result = run_fit(splits, settings, out, resume=resume, fabric=fabric)
    except KeyboardInterrupt:
        if fabric.is_global_zero:
            console.print(f"interrupted; go on with --resume, in {escape(str(out))}")
        raise
    if fabric.is_global_zero:
        origin.save(out)
        save_command(out, command_line())
        for note in splits.notes:
            console.print(f"note: {escape(note)}")
        _print_result(result, as_json=json)
        _write_report(out, splits, console)
    leave_ranks(fabric)


def _write_report(out: Path, splits: Splits, console: Console) -> None:
    """The training is done and its model is there: no trouble with a page may hide that."""
    try:
        with console.status("writing report.html: every training label is looked at once more"):
            write_page(run_page(out, splits, command_line()), out / "report.html")
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
        console.print(f"[yellow]note:[/] report.html could not be written: {escape(trouble)}")


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
            f"{path} must hold a matrix of numbers T[noisy, true], as .npy or with commas between "
            f"them: {error}"
        ) from error


def _print_result(result: FitResult, *, as_json: bool) -> None:
    if as_json:
        record = {
            "bound": result.bound,
            "bound_origin": result.bound_origin,
            "bound_reason": result.bound_reason,
            "noise": result.noise,
            "memorizing_since": result.memorizing_since,
            "final": result.final,
            "out": str(result.folder),
        }
        print(json_format.dumps(record))  # noqa: T201
        return
    final = result.final
    console = Console(soft_wrap=True, highlight=False)
    _print_noise(result, console)
    floor = "" if result.bound is None else f" (floor {result.bound:.3f})"
    console.print(f"after {final['epoch']} epochs: training loss {final['train_loss']:.3f}{floor}")
    names = {
        "validation_top1": "accuracy on held-out data, whose labels are noisy too",
        "test_top1": "accuracy on the test set",
        "memorized": "wrong labels reproduced",
    }
    for name, label in names.items():
        value = final.get(f"averaged_{name}", final.get(name))
        if value is not None:
            console.print(f"{label}: {value:.1%}")
    if result.memorizing_since is not None:
        console.print(
            f"[yellow]memorizing since epoch {result.memorizing_since}[/]: the training loss has "
            "been below the floor that the noise puts under it; bound it with +b"
        )
    if result.is_stuck:
        console.print(
            "[yellow]note:[/] the training loss has not come down to what a short plain training "
            "reached on held-out data: train for longer, or lower the learning rate"
        )
    console.print(f"model, measurements and report.html: {escape(str(result.folder))}")


def _print_noise(result: FitResult, console: Console) -> None:
    noise = result.noise
    if noise is not None and "interval" in noise:
        low, high = noise["interval"]
        console.print(
            f"estimated noise rate {noise['noise_rate']:.3f}, with 95 % confidence between "
            f"{low:.3f} and {high:.3f}"
        )
        for warning in noise["warnings"]:
            console.print(f"[yellow]note:[/] {escape(warning)}")
    if result.bound is not None:
        console.print(f"bound {result.bound:.3f}: {escape(str(result.bound_reason))}")
