"""Many runs: on the cores of this machine, or on a Ray cluster; interrupted, killed, gone on with.

Runs speak through their folders, so it does not matter who does them, or in how many attempts.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from noisebound.experiments.run import DataSources, RunConfig, RunStore, execute
from noisebound.experiments.sweep_progress import SweepProgress

_DEATHS_OF_A_SUSPECT = 2


@dataclass(frozen=True)
class Workers:
    """Who does the runs.

    Args:
        jobs: how many at once; None for as many as there are cores, or GPUs
        cluster: a Ray cluster's address, ``"auto"`` for the one that is running here, ``"local"``
            to start one; None for processes of this machine
        threads: of each; None for its share of the cores, on a cluster for one
    """

    jobs: int | None = None
    cluster: str | None = None
    threads: int | None = None


class WorkerDiedError(RuntimeError):
    """A process ended under its run: killed, or out of memory."""


def run_sweep(
    runs: Sequence[RunConfig], store: RunStore, sources: DataSources, workers: Workers
) -> dict[RunConfig, str]:
    """Do what is not done yet; gives the runs that failed, with their errors.

    Where a worker dies, the runs that were under way are done again. One that was under way when
    workers died twice is done alone: if its worker dies then too, it is to blame, and has failed.
    """
    to_do = [run for run in dict.fromkeys(runs) if store.state(run) != "finished"]
    for run in to_do:
        store.forget_failure(run)
    deaths: Counter[RunConfig] = Counter()
    with SweepProgress(runs, store) as progress:
        while to_do:
            suspects = [run for run in to_do if deaths[run] >= _DEATHS_OF_A_SUSPECT]
            for run in suspects:
                _alone(run, store, sources, workers)
            try:
                _in_parallel([run for run in to_do if run not in suspects], store, sources, workers)
            except WorkerDiedError as error:
                under_way = [run for run in to_do if progress.state(run) == "running"]
                if not under_way:
                    raise RuntimeError(f"workers die before they begin a run: {error}") from error
                for run in under_way:
                    store.mark_waiting(run)
                deaths.update(under_way)
            to_do = [run for run in to_do if store.state(run) not in ("finished", "failed")]
    errors = {run: store.error(run) for run in dict.fromkeys(runs)}
    return {run: error for run, error in errors.items() if error is not None}


def _alone(run: RunConfig, store: RunStore, sources: DataSources, workers: Workers) -> None:
    try:
        _in_parallel([run], store, sources, replace(workers, jobs=2))  # not in this process
    except WorkerDiedError as error:
        store.record_failure(run, f"its worker died: {error}", "")


def _in_parallel(
    runs: Sequence[RunConfig], store: RunStore, sources: DataSources, workers: Workers
) -> None:
    with _pool(workers) as threads:
        tasks = (delayed(execute)(run, store, sources, threads) for run in runs)
        Parallel(batch_size=1, pre_dispatch="all")(tasks)


@contextmanager
def _pool(workers: Workers) -> Iterator[int | None]:
    """Within it, joblib has these workers; gives the threads that each may use."""
    if workers.cluster is not None:
        with _ray(workers) as threads:
            yield threads
        return
    cores = len(os.sched_getaffinity(0))
    jobs = workers.jobs or (1 if torch.cuda.is_available() else cores)
    threads = workers.threads or max(1, cores // jobs)
    try:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads):
            yield threads
    except TerminatedWorkerError as error:
        raise WorkerDiedError(str(error)) from error


@contextmanager
def _ray(workers: Workers) -> Iterator[int | None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise ValueError(
            "a cluster needs Ray: install it with  pip install 'noisebound[ray]'"
        ) from error
    register_ray()
    if not ray.is_initialized():
        _connect(workers.cluster)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    jobs = workers.jobs or gpus or int(resources["CPU"])
    needs = {"num_cpus": workers.threads or 1, "num_gpus": 1 if gpus else 0}
    try:
        with parallel_config("ray", n_jobs=jobs, ray_remote_args=needs):
            yield workers.threads or (None if gpus else 1)
    except ray.exceptions.RayError as error:
        raise WorkerDiedError(str(error).strip().partition("\n")[0]) from error


def _connect(cluster: str | None) -> None:
    import ray

    try:
        ray.init(
            address=None if cluster == "local" else cluster,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError) as error:
        raise ValueError(
            f"no Ray cluster at {cluster!r}: start one with  ray start --head , or have one "
            f"started here with  --cluster local  ({error})"
        ) from error
