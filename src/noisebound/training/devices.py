"""The devices and processes that train together; one device by default.

Lightning Fabric serves several devices and special precisions. It takes seconds to import, so one
device does without: `OneDevice`.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

import torch
import torch.distributed as dist
from joblib import cpu_count
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from noisebound.data.loader import derived_seed
from noisebound.errors import InvalidValueError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # the options of mallopt, from glibc's malloc.h
_LARGEST_KEPT, _MOST_KEPT = 2**28, 2**30  # bytes of a buffer, and of all that are free; heuristic

Value = TypeVar("Value")


class OneDevice:
    """One device and one process, with the part of Fabric's interface that training uses."""

    world_size, global_rank, is_global_zero = 1, 0, True
    loggers: Sequence[Any] = ()  # Fabric may have some

    def __init__(
        self, device: str | torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        if device is None:
            has_mps = torch.backends.mps.is_available()
            device = "cuda:0" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
        self.device, self.dtype = torch.device(device), dtype

    def setup(self, module: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        return module, optimizer

    def backward(self, tensor: Tensor, gradient: Tensor | None = None) -> None:
        tensor.backward(gradient)  # type: ignore[no-untyped-call]

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[None]:
        return nullcontext()

    def all_reduce(self, data: Tensor, reduce_op: str = "mean") -> Tensor:
        return data

    def broadcast(self, obj: Value) -> Value:
        return obj

    def barrier(self) -> None:
        """Wait for all processes."""

    def init_module(self) -> AbstractContextManager[None]:
        return default_type(self.dtype)


Devices: TypeAlias = Union[OneDevice, "Fabric"]
"""One device, or Lightning Fabric after its launch."""


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


def use_threads(threads: int | None, processes: int = 1) -> None:
    """Set the number of threads that torch computes with.

    By default, it is the value of OMP_NUM_THREADS, or the share of the cores that each of the
    processes on this machine has.
    """
    cores = cpu_count()  # within the affinity and the container's quota
    if threads is None:
        if "OMP_NUM_THREADS" in os.environ:
            return
        threads = max(1, cores // processes)
    if not 1 <= threads <= cores:
        raise InvalidValueError(
            f"`threads` must be between 1 and {cores}, the number of cores; got {threads}"
        )
    torch.set_num_threads(threads)


def keep_freed_memory() -> bool:
    """Let this process keep the buffers that it frees; return False if that cannot be set.

    By default, glibc returns buffers of more than 32 MiB to the system and gets them back page by
    page. For the activations of a convolutional network, this took a quarter of the CPU time.
    Settings in the environment have priority.
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS and musl, no libraries, Windows
        return False
    return bool(
        set_option(_MMAP_THRESHOLD, _LARGEST_KEPT) and set_option(_TRIM_THRESHOLD, _MOST_KEPT)
    )
