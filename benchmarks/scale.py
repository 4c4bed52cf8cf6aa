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
import polars as pl
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

# Predictions as networks give them for labels of which four in ten are those of the next class.
CALL = """
import sys, time, torch, noisebound as nb
call, size, classes, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
generator = torch.Generator().manual_seed(0)
true = torch.randint(classes, (size,), generator=generator)
labels = nb.corrupt(true, "pairwise", 0.4, classes, generator=generator).labels
probs = torch.randn(size, classes, generator=generator)
probs[torch.arange(size), true] += 4
probs[torch.arange(size), (true + 1) % classes] += 3
for rows in probs.split(10_000):
    rows.copy_(rows.softmax(1))
started = time.process_time()
getattr(nb, call)(probs, labels)
open(out, "w").write(str(time.process_time() - started))
"""
FLOOR = """
import sys, time, torch, noisebound as nb
from torch.nn import functional as F
classes, out = int(sys.argv[1]), sys.argv[2]
def own(logits, labels):
    surprisal = F.cross_entropy(logits, labels, reduction="none")
    return (1 - (-surprisal).exp()) ** 2 * surprisal
generator = torch.Generator().manual_seed(0)
matrix = 0.6 * torch.eye(classes) + 0.4 * torch.rand(classes, classes, generator=generator)
started = time.process_time()
nb.transition_bound(own, (matrix / matrix.sum(0)).double())
open(out, "w").write(str(time.process_time() - started))
"""
TABLE = """
import sys, time
from noisebound.data import load
started = time.process_time()
load(sys.argv[1], target="label")
open(sys.argv[2], "w").write(str(time.process_time() - started))
"""
COLUMNS = 30


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


def measure_call(script: str, *arguments: object) -> tuple[float, int]:
    """Return the CPU time of the call that a script times, and the peak memory of all of it."""
    with tempfile.NamedTemporaryFile("r") as seconds:
        words = [str(argument) for argument in arguments]
        _, peak = measure([sys.executable, "-c", script, *words, seconds.name], {})
        return float(seconds.read()), peak


def suspects(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what ``find_suspects`` costs with ten classes."""
    for size in sizes:
        cost = measure_call(CALL, "find_suspects", size, 10)
        yield Row("find_suspects, 10 classes", size, size * 10 * 4, *cost)


def suspects_of_many_classes(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what ``find_suspects`` costs with a hundred classes."""
    for size in sizes:
        cost = measure_call(CALL, "find_suspects", size, 100)
        yield Row("find_suspects, 100 classes", size, size * 100 * 4, *cost)


def estimates(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what ``estimate_noise`` costs with a thousand classes."""
    for size in sizes:
        cost = measure_call(CALL, "estimate_noise", size, 1000)
        yield Row("estimate_noise, 1,000 classes", size, size * 1000 * 4, *cost)


def floors(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what the floor of a user's loss costs, by the number of classes."""
    for size in sizes:
        cost = measure_call(FLOOR, size)
        yield Row("transition_bound of focal loss, by classes", size, size * size * 8, *cost)


def tables(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield what reading a CSV file of thirty columns costs, numbers and dates."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table.csv")
            write_table(path, size)
            cost = measure_call(TABLE, path)
            yield Row("load of a CSV file", size, size * COLUMNS * 4, *cost)


def write_table(path: Path, count: int) -> None:
    """Write numbers, a few categories and a date, with two classes, a block of rows at a time."""
    random = np.random.default_rng(0)
    names = [f"x{column}" for column in range(COLUMNS - 2)]
    with path.open("wb") as file:
        file.write((",".join([*names, "city", "day", "label"]) + "\n").encode())
        for start in range(0, count, 100_000):
            rows = min(100_000, count - start)
            numbers = {name: random.normal(size=rows).round(3) for name in names}
            days = np.datetime64("2024-01-01") + random.integers(0, 700, rows)
            block = pl.DataFrame(
                numbers
                | {
                    "city": random.choice(["Rome", "Oslo", "Lima"], rows),
                    "day": days,
                    "label": random.choice(["no", "yes"], rows),
                }
            )
            block.write_csv(file, include_header=False)


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
    "suspects": (suspects, (100_000, 1_000_000)),
    "many-classes": (suspects_of_many_classes, (10_000, 100_000)),
    "estimates": (estimates, (100_000, 1_000_000)),
    "floors": (floors, (10, 100)),
    "tables": (tables, (100_000, 1_000_000)),
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
