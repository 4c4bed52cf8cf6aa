"""Sweeps on a Ray cluster of this machine's cores: ``ray_sweep.py OUT``. See test_sweep.py."""

import os
import sys
from functools import partial
from pathlib import Path

import ray

from noisebound.paper.run import DataSources, RunStore
from noisebound.paper.sweep import run_sweep
from paper_runs import RAY_RUNS, InterruptedSources, digit_runs


def main(out: Path) -> None:
    """Sweep with two workers, of which one is killed, and with one."""
    sweep, sources = partial(run_sweep, cluster="local"), InterruptedSources(killed=out / "killed")
    failures = sweep(RAY_RUNS, RunStore(out / "two"), sources, jobs=2, checkpoint_seconds=0)
    os.chdir(out)  # the cluster was started elsewhere
    failures |= sweep(digit_runs(["mse"]), RunStore(Path("one")), DataSources(), jobs=1)
    ray.shutdown()
    if failures:
        raise SystemExit(str(failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
