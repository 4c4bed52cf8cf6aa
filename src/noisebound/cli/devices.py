"""Options of `fit` that need Lightning: several devices, other precisions, trackers."""

import logging
from pathlib import Path
from typing import Literal

from lightning_fabric import Fabric
from lightning_fabric.loggers.csv_logs import CSVLogger
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
    """Start the processes of a training, and return the link between them."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # no banner per rank
    loggers = {"csv": CSVLogger, "tensorboard": TensorBoardLogger}
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=int(devices) if devices.isdigit() else devices,
            num_nodes=nodes,
            precision=precision,
            loggers=[] if logger is None else [loggers[logger](out, name="logs")],
        )
    except (RuntimeError, ValueError, TypeError, MisconfigurationException) as error:
        raise InvalidValueError(str(error)) from error  # such as missing devices
    processes, cores = fabric.world_size // nodes, usable_cores()
    if fabric.device.type == "cpu" and processes > cores:
        raise InvalidValueError(
            f"`devices` must be at most {cores} here, one per core of this machine; got {processes}"
        )
    fabric.launch()
    return fabric
