"""Several devices or machines, another precision, or a tracker: where `fit` needs Lightning."""

import logging
from pathlib import Path
from typing import Literal

from lightning_fabric import Fabric
from lightning_fabric.loggers.csv_logs import CSVLogger
from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from lightning_fabric.utilities.exceptions import MisconfigurationException

from noisebound.errors import InvalidValueError
from noisebound.training.config import Precision
from noisebound.training.devices import usable_cores


def launch(
    accelerator: str,
    devices: str,
    nodes: int,
    precision: Precision,
    logger: Literal["csv", "tensorboard"] | None,
    out: Path,
) -> Fabric:
    """Start the processes of a training and return the link between them.

    Args:
        accelerator: the kind of device, or ``"auto"``
        devices: the number of devices per machine, or ``"auto"``
        nodes: the number of machines
        precision: the type of numbers to compute with
        logger: the tracker that gets the metrics too
        out: the folder of the run, where the logger writes
    """
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it prints a banner per rank
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=int(devices) if devices.isdigit() else devices,
            num_nodes=nodes,
            precision=precision,
            loggers=_loggers(logger, out),
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
