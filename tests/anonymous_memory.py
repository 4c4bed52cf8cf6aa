"""The memory of this process that no file stands behind, and that data must not fill."""

from pathlib import Path


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process, without the files that it has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise AssertionError("the kernel does not tell the anonymous memory")
