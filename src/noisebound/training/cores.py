"""How many cores this process may use, and how many threads torch computes with."""

import math
import os
from pathlib import Path

import torch

from noisebound.errors import InvalidValueError

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of work per period


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
        threads: the number; None for this process's share of the cores, or for what the variable
            OMP_NUM_THREADS says
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
