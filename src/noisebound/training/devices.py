"""The devices and processes that train together; one device by default.

Lightning Fabric serves several devices and mixed precision. It takes seconds to import, so one
device does without: `OneDevice` has the part of Fabric's interface that training uses.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from noisebound.data.loader import derived_seed
from noisebound.errors import InvalidValueError

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of work per period

Value = TypeVar("Value")


class Logger(Protocol):
    """Receives the metrics of each epoch; Lightning's loggers are such."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Take the metrics of an epoch."""

    def finalize(self, status: str) -> None:
        """Write what is not written yet."""


class Devices(Protocol):
    """The part of Lightning Fabric's interface that training uses, after its launch."""

    @property
    def world_size(self) -> int:
        """The number of processes."""

    @property
    def global_rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def is_global_zero(self) -> bool:
        """True in the first process."""

    @property
    def device(self) -> torch.device:
        """The device of this process."""

    @property
    def loggers(self) -> Sequence[Any]:
        """Receive the metrics of each epoch."""

    def setup(self, module: nn.Module, optimizer: Optimizer) -> Any:
        """Return the network and the optimizer, prepared for the devices."""

    def backward(self, tensor: Tensor, *args: Any, **options: Any) -> None:
        """Compute gradients."""

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[None]:
        """Return a context in which gradients are not averaged over the processes."""

    def all_reduce(self, data: Tensor, group: Any = None, reduce_op: str | None = "mean") -> Any:
        """Return a reduction over all processes."""

    def broadcast(self, obj: Value, src: int = 0) -> Value:
        """Return the first process's object in every process."""

    def barrier(self, name: str | None = None) -> None:
        """Wait for all processes."""

    def init_module(self) -> AbstractContextManager[Any]:
        """Return a context in which torch's default type is that of the precision."""

    def log_dict(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Give metrics to the loggers."""


class OneDevice:
    """One device and one process.

    Args:
        device: by default CUDA's or Apple's where there is one, else the CPU
        dtype: the type of numbers to compute with
        loggers: receive the metrics of each epoch
    """

    world_size, global_rank, is_global_zero = 1, 0, True

    def __init__(
        self,
        device: str | torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        loggers: Sequence[Logger] = (),
    ) -> None:
        self.device = _best_device() if device is None else torch.device(device)
        self.dtype, self.loggers = dtype, loggers

    def setup(self, module: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Return both as they are."""
        return module, optimizer

    def backward(self, tensor: Tensor, *args: Any, **options: Any) -> None:
        """Compute gradients."""
        tensor.backward(*args, **options)  # type: ignore[no-untyped-call]

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()

    def all_reduce(self, data: Tensor, group: Any = None, reduce_op: str | None = "mean") -> Tensor:
        """Return the same."""
        return data

    def broadcast(self, obj: Value, src: int = 0) -> Value:
        """Return the same."""
        return obj

    def barrier(self, name: str | None = None) -> None:
        """Do nothing."""

    def init_module(self) -> AbstractContextManager[None]:
        """Return a context in which torch's default type is that of the precision."""
        return default_type(self.dtype)

    def log_dict(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Give metrics to the loggers."""
        for logger in self.loggers:
            logger.log_metrics(dict(metrics), step)


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Set torch's default type of numbers for a while."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def seeded(seed: int, epoch: int, devices: Devices) -> Iterator[None]:
    """Make dropout follow from the seed, the epoch and the rank."""
    own_seed, device = derived_seed(seed, epoch, 1 + devices.global_rank, 0), devices.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cpu":
            # torch.manual_seed records a stack trace for unused accelerators, which takes a tenth
            # of the time of a small network's epoch.
            torch.default_generator.manual_seed(own_seed)
        else:
            torch.manual_seed(own_seed)
        yield


def mixing_generator(seed: int, epoch: int, devices: Devices) -> Generator:
    """Return the generator that mixes the examples of an epoch on this rank."""
    return Generator().manual_seed(derived_seed(seed, epoch, 1 + devices.global_rank, 1))


def sum_over_ranks(values: Tensor, devices: Devices) -> Tensor:
    """Return the sum over all ranks, on every rank."""
    total = devices.all_reduce(values, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def share_buffers(model: nn.Module, devices: Devices) -> None:
    """Give every rank the buffers of the first: batch norm sees other examples on each."""
    if devices.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)


def first_rank_does(devices: Devices, action: Callable[[], None]) -> None:
    """Do something on the first rank while the others wait; if it fails, all ranks fail alike.

    If only the first rank failed, the others would end with a broken connection and its traceback.
    """
    error: Exception | None = None
    if devices.is_global_zero:
        try:
            action()
        except Exception as raised:
            error = raised
    error = devices.broadcast(error)
    if error is not None:
        raise error


def is_lost_connection(error: BaseException) -> bool:
    """True if gloo failed because another rank has ended."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error)
    )


def leave_ranks(devices: Devices) -> None:
    """End this process, if it is one of several, as soon as all of them are done.

    The interpreter's own shutdown is skipped: gloo's threads aborted it in 4 of 240 runs.
    """
    if devices.world_size == 1:
        return
    devices.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def usable_cores() -> int:
    """Return the number of cores that the system, and the container's quota, leave this process."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:  # macOS, Windows
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores))


def use_threads(threads: int | None, processes: int = 1) -> None:
    """Set the number of threads that torch computes with.

    Args:
        threads: the number; by default this process's share of the cores, or the value of the
            variable OMP_NUM_THREADS
        processes: the number of processes that train together on this machine
    """
    cores = usable_cores()
    if threads is None:
        if "OMP_NUM_THREADS" in os.environ:
            return
        threads = max(1, cores // processes)
    if not 1 <= threads <= cores:
        raise InvalidValueError(
            f"`threads` must be between 1 and {cores}, the number of cores; got {threads}"
        )
    torch.set_num_threads(threads)


def _quota() -> int | None:
    """Return how many cores the container's quota comes to, rounded up; None without a quota."""
    try:
        granted, period = map(int, _QUOTA.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no container, another system, or "max" for no quota
        return None
    return math.ceil(granted / period) if period > 0 else None
