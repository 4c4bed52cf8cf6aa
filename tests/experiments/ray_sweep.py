"""Sweeps on a Ray cluster of this machine's cores: ``ray_sweep.py OUT``. See test_sweep.py."""

import sys
import threading
from pathlib import Path

import ray

from experiment_runs import LONG, digit_runs, kill_a_worker
from noisebound.experiments.run import DataSources, RunStore
from noisebound.experiments.sweep import Workers, run_sweep


def main(out: Path) -> None:
    """One sweep undisturbed, one of whose workers one is killed."""
    workers = Workers(jobs=2, cluster="local")
    runs = digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1])
    failures = run_sweep(runs, RunStore(out / "undisturbed"), DataSources(), workers)
    store = RunStore(out / "disturbed")

    def kill() -> None:
        (out / "killed").write_text(str(kill_a_worker(store, "ray::PoolActor")))

    killer = threading.Thread(target=kill)
    killer.start()
    failures |= run_sweep(digit_runs(["ce", "gce+b"], settings=LONG), store, DataSources(), workers)
    killer.join()
    ray.shutdown()
    if failures:
        raise SystemExit(str(failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
