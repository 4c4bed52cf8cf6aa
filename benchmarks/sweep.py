"""Time the same sweep with one worker and with two, with one thread each.

The images are random and have FashionMNIST's shape, so that no data set is needed; the runs are
those of the preset `cpu`. The time includes starting the workers.

    python benchmarks/sweep.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor

from noisebound.paper.plan import Plan
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import RunStore
from noisebound.paper.sources import DataSources
from noisebound.paper.sweep import Workers, run_sweep

SEEDS, METHODS = (0, 1, 2), ("ce", "ce+b", "sce", "sce+b")


def main() -> None:
    """Time the sweep with one worker and with two."""
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images.npz"
        random = np.random.default_rng(0)
        np.savez(
            images,
            X=random.integers(0, 256, (12_000, 28, 28), np.uint8),
            y=random.integers(0, 10, 12_000),
            X_test=random.integers(0, 256, (10_000, 28, 28), np.uint8),
            y_test=random.integers(0, 10, 10_000),
        )
        sources = DataSources(paths={"fashion-mnist": images})
        plan = Plan(CPU, SEEDS, sources)
        runs = plan.table_runs([COLUMNS["fashion-mnist-0.4"]], METHODS)
        print(f"{len(runs)} runs")
        seconds = {}
        for jobs in (1, 2):
            store = RunStore(Path(folder) / str(jobs))
            started = time.perf_counter()
            failures = run_sweep(runs, store, sources, Workers(jobs, threads=1))
            seconds[jobs] = time.perf_counter() - started
            get_reusable_executor().shutdown()  # the next sweep starts new processes
            if failures:
                raise RuntimeError(str(failures))
        print(
            f"1 worker {seconds[1]:.1f} s, 2 workers {seconds[2]:.1f} s: "
            f"{seconds[1] / seconds[2]:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
