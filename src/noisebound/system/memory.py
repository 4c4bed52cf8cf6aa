"""Keep freed memory for the next training step (glibc only)."""

import ctypes
import os

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # the options of mallopt, from glibc's malloc.h
_LARGEST_KEPT, _MOST_KEPT = 2**28, 2**30  # bytes of a buffer, and of all that are free; heuristic


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
