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
from paper_runs import LONG, digit_runs, kill_a_worker


def main(out: Path) -> None:
    """One sweep undisturbed, one of a single job, one of whose workers one is killed."""
    workers = Workers(jobs=2, cluster="local")
    runs = digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1])
    failures = run_sweep(runs, RunStore(out / "undisturbed"), DataSources(), workers)
    os.chdir(out)  # the cluster was started elsewhere
    one = replace(workers, jobs=1)
    failures |= run_sweep(digit_runs(["mse"]), RunStore(Path("one")), DataSources(), one)
    store = RunStore(out / "disturbed")

    def kill() -> None:
        (out / "killed").write_text(str(kill_a_worker(store, "ray::PoolActor")))

    killer = threading.Thread(target=kill)
    killer.start()
    runs = digit_runs(["ce", "ce+b"], settings=LONG)
    failures |= run_sweep(runs, store, DataSources(), workers, checkpoint_seconds=0)
    killer.join()
    ray.shutdown()
    if failures:
        raise SystemExit(str(failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
