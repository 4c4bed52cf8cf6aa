"""Measure how CPU time and memory grow with the data, each size in a process of its own.

A part is a function that yields rows, such as `images`; add one to `PARTS`. The memory is the peak
of what no file stands behind (``RssAnon``): pages of a mapped file do not count, since the system
takes them back when it needs them. The exponent compares a row with the one before: 1 for what
grows in proportion.

    python benchmarks/scale.py
    python benchmarks/scale.py images --sizes 1500 3000 6000
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SECONDS_BETWEEN_LOOKS = 0.005
SIDE = 224  # pixels of an image's height and width
CLASSES = 10
# A network that costs less than the data, which is what is measured here.
FIT = """
import sys
import noisebound as nb
from torch import nn
photos, out, noise_rate = sys.argv[1:]
network = nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(588, 10))
rate = noise_rate if noise_rate == "auto" else float(noise_rate)
nb.fit(photos, out=out, noise_rate=rate, epochs=1, batch_size=32, model=network, report=False)
"""


@dataclass(frozen=True)
class Row:
    """What one size costs.

    Args:
        what: what was done
        size: number of examples
        data_bytes: size of the data in the form in which it is used
        cpu_seconds: CPU time of all threads
        peak_bytes: peak of the anonymous memory
    """

    what: str
    size: int
    data_bytes: int
    cpu_seconds: float
    peak_bytes: int


def measure(command: Sequence[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a command, and return its CPU time in seconds and its peak anonymous memory in bytes."""
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    status = Path(f"/proc/{process.pid}/status")
    peak = 0
    while True:
        pid, code, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                peak = max(peak, 1024 * int(line.split()[1]))
        time.sleep(SECONDS_BETWEEN_LOOKS)
    assert process.stderr is not None
    if code:
        sys.exit(process.stderr.read().decode())
    return used.ru_utime + used.ru_stime, peak


def images(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what ``fit`` costs on folders of JPEG photographs of 224×224.

    The first time images are decoded; later they are in the cache. Each training has one epoch.
    """
    runs = {"fit, first time": "0.2", "fit, again": "0.2", "fit, noise estimated": "auto"}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            photos, cache = Path(folder, "photos"), {"NOISEBOUND_CACHE": str(Path(folder, "cache"))}
            write_photos(photos, size)
            for what, noise_rate in runs.items():
                arguments = [str(photos), str(Path(folder, what)), noise_rate]
                cost = measure([sys.executable, "-c", FIT, *arguments], cache)
                yield Row(what, size, size * 3 * SIDE**2, *cost)


def write_photos(folder: Path, count: int) -> None:
    """Write JPEG files of blurred noise with one folder per class, whose brightness differs."""
    random = np.random.default_rng(0)
    for label in range(CLASSES):
        (folder / str(label)).mkdir(parents=True)
    for number in range(count):
        label = number % CLASSES
        blocks = random.integers(8 * label, 100 + 8 * label, (14, 14, 3), dtype=np.uint8)
        image = Image.fromarray(blocks).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        image.save(folder / str(label) / f"{number}.jpg", quality=90)


PARTS: dict[str, tuple[Callable[[Sequence[int]], Iterator[Row]], tuple[int, ...]]] = {
    "images": (images, (1500, 3000, 6000)),
}
"""What is measured, and at which sizes by default."""


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table, the rows of one kind below each other."""
    print("| what | examples | data | CPU time | exponent | peak memory | per byte of more data |")
    print("|---|---|---|---|---|---|---|")
    for what in dict.fromkeys(row.what for row in rows):
        before = None
        for row in (row for row in rows if row.what == what):
            exponent = growth = ""
            if before is not None:
                ratio = row.cpu_seconds / before.cpu_seconds
                exponent = f"{math.log(ratio) / math.log(row.size / before.size):.2f}"
                added = row.peak_bytes - before.peak_bytes
                growth = f"{added / (row.data_bytes - before.data_bytes):.2f}"
            print(
                f"| {what} | {row.size:,} | {row.data_bytes / 1e6:,.0f} MB | "
                f"{row.cpu_seconds:.1f} s | {exponent} | {row.peak_bytes / 1e6:,.0f} MB | "
                f"{growth} |"
            )
            before = row


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of examples")
    options = parser.parse_args()
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is not one of {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        part, usual = PARTS[name]
        print(f"\n### {name}\n")
        print_rows(list(part(options.sizes or usual)))


if __name__ == "__main__":
    main()
