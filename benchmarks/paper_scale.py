"""Run the preset `paper` for a few steps, interrupt it, resume it, and say what a table would take.

CIFAR-100 is read from its own files; in place of TinyImageNet and Animals-10N there are folders of
random images of their size, with as many classes. Each command is the real one, with fewer examples
and two epochs: it is interrupted after the first, and the same command finishes it.

    NOISEBOUND_DATA=… python benchmarks/paper_scale.py
"""

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

METHODS, SEEDS = 19, 3  # the fourteen rows of a table and the five bounded ones


@dataclass(frozen=True)
class Case:
    """A column, and how much of it is trained.

    Args:
        target: the table
        column: the column
        batch: the paper's batch size
        examples: drawn from the training set
        full_examples: that the paper's training set has
        epochs: the paper's
    """

    target: str
    column: str
    batch: int
    examples: int
    full_examples: int
    epochs: int

    def steps(self, examples: int) -> int:
        """Return the steps of an epoch; a tenth of the examples is validation's."""
        return math.ceil(0.9 * examples / self.batch)


CASES = (
    Case("table2", "cifar100-0.4", 300, 1000, 50_000, 120),
    Case("open-set", "tiny-imagenet-0.4", 200, 450, 100_000, 100),
    Case("open-set", "animals-10n", 200, 450, 50_000, 100),
)


def random_image(path: Path, generator: np.random.Generator) -> None:
    """Write an image of 64 pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path, "JPEG")


def write_trees(root: Path) -> None:
    """Write folders of images with as many classes as TinyImageNet and Animals-10N have."""
    generator = np.random.default_rng(0)
    for dataset, classes, per_class in (("tiny-imagenet", 200, 3), ("animals-10n", 10, 60)):
        for label in range(classes):
            for part, count in (("train", per_class), ("test", 1)):
                for number in range(count):
                    path = root / dataset / part / f"class{label}" / f"{number}.jpg"
                    random_image(path, generator)


def interrupted_and_resumed(case: Case, data: Path | None, out: Path) -> float:
    """Return the seconds of a step of the first epoch, after which the command is interrupted."""
    command = [
        *(sys.executable, "-m", "noisebound", "reproduce", case.target, "--preset", "paper"),
        *("--columns", case.column, "--methods", "ce+b", "--seeds", "1", "--jobs", "1"),
        *("--set", f"train_examples={case.examples}", "epochs=2", "drop_epoch=1"),
        *("measure_every=2", f"{dataset_of(case)}.epochs=2", "--out", str(out)),
        *(() if data is None else ("--source", f"{dataset_of(case)}={data}")),
    ]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (seconds := epoch_seconds(out)):
        assert first.poll() is None, "the command ended before its first epoch did"
        time.sleep(0.2)
    first.send_signal(signal.SIGTERM)  # which a shell that runs this in the background lets through
    assert first.wait() != 0
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "1 finished" in done.stderr + done.stdout
    assert len(epoch_seconds(out)) == 2
    return seconds[0] / case.steps(case.examples)


def dataset_of(case: Case) -> str:
    """Return the data set of the case's column."""
    return case.column.removesuffix("-0.4")


def epoch_seconds(out: Path) -> list[float]:
    """Return what each epoch of the run has taken so far."""
    found = list(out.glob("runs/*/metrics.jsonl"))
    lines = found[0].read_text().splitlines() if found else []
    return [json.loads(line)["seconds"] for line in lines]


def main() -> None:
    """Print a row per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", nargs="+", default=[case.column for case in CASES])
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores")
    print("| column | batch | seconds per step | steps of a run | a run | 19 methods, 3 seeds |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_trees(root)
        for case in CASES:
            if case.column not in options.columns:
                continue
            data = None if dataset_of(case) == "cifar100" else root / dataset_of(case)
            step = interrupted_and_resumed(case, data, root / "out" / case.column)
            steps = case.steps(case.full_examples) * case.epochs
            hours = step * steps / 3600
            print(
                f"| {case.column} | {case.batch} | {step:.1f} | {steps:,} | {hours:,.0f} h "
                f"| {hours * METHODS * SEEDS / 24:,.0f} days |",
                flush=True,
            )


if __name__ == "__main__":
    main()
