"""Sweeps on a Ray cluster of this machine's cores: ``ray_sweep.py OUT``. See test_sweep.py."""

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import ray

from noisebound.paper.run import RunStore
from noisebound.paper.sources import DataSources
from noisebound.paper.sweep import Workers, run_sweep
from paper_runs import RAY_RUNS, digit_runs, kill_a_worker


def main(out: Path) -> None:
    """Sweep with two workers, of which one is killed, and with one."""
    store, workers = RunStore(out / "two"), Workers(jobs=2, cluster="local")

    def kill() -> None:
        (out / "killed").write_text(str(kill_a_worker(store, "ray::PoolActor")))

    killer = threading.Thread(target=kill)
    killer.start()
    failures = run_sweep(RAY_RUNS, store, DataSources(), workers, checkpoint_seconds=0)
    killer.join()
    os.chdir(out)  # the cluster was started elsewhere
    one = replace(workers, jobs=1)
    failures |= run_sweep(digit_runs(["mse"]), RunStore(Path("one")), DataSources(), one)
    ray.shutdown()
    if failures:
        raise SystemExit(str(failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
