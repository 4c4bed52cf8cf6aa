"""The memory of this process that is not mapped from files, which data must not fill."""

import ctypes
import gc
from pathlib import Path


def anonymous_bytes() -> int:
    """Return the anonymous memory that this process needs, without the files that it has mapped.

    What was freed goes back to the kernel first: an allocator that keeps it for later would
    count as data. The mapped ranges are added up one by one, since the totals that the kernel
    keeps for each process are estimates on a machine with many cores.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("the kernel does not tell the anonymous memory")
