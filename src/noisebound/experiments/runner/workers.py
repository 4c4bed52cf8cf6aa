"""Who does the runs: processes of this machine, or a Ray cluster, both through joblib.

A run is always done in another process than this one, so that one that is killed, or that takes all
the memory, does not take the sweep with it.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from noisebound.errors import InvalidValueError
from noisebound.experiments.protocol.run_config import RunConfig
from noisebound.experiments.runner.run import Execution, execute


@dataclass(frozen=True)
class Workers:
    """How many, and where.

    Args:
        jobs: how many at once; None for as many as there are cores, or GPUs
        cluster: a Ray cluster's address, ``"auto"`` for the one that is running here, ``"local"``
            to start one; None for processes of this machine
        threads: of each; None for its share of the cores, on a cluster for one
    """

    jobs: int | None = None
    cluster: str | None = None
    threads: int | None = None


class WorkerDiedError(ChildProcessError):
    """A process ended under its run: killed, or out of memory."""


def do_runs(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    """All of them, in any order; their folders tell what came of it.

    Raises:
        WorkerDiedError: some may be done, and some not
    """
    if workers.cluster is None:
        _do_here(runs, execution, workers)
    else:
        _do_on_ray(runs, execution, workers)


def _do_here(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    cores = len(os.sched_getaffinity(0))
    jobs = workers.jobs or (1 if torch.cuda.is_available() else cores)
    threads = workers.threads or max(1, cores // jobs)
    tasks = [delayed(execute)(run, replace(execution, threads=threads)) for run in runs]
    # with one job joblib would not start a process; so one of two does one task after another
    groups = [[task] for task in tasks] if jobs == 1 else [tasks]
    try:
        with parallel_config("loky", n_jobs=max(2, jobs), inner_max_num_threads=threads):
            for group in groups:
                Parallel(batch_size=1, pre_dispatch="all")(group)
    except TerminatedWorkerError as error:
        raise WorkerDiedError(_first_line(error)) from error


def _do_on_ray(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    with _connected(workers) as ray:
        resources = ray.cluster_resources()
        gpus, threads = int(resources.get("GPU", 0)), workers.threads or 1
        room = min(gpus or 10**9, int(resources.get("CPU", 0)) // threads)
        jobs = workers.jobs or room
        if not 1 <= jobs <= room:
            raise InvalidValueError(
                f"the cluster has room for {room} runs at once ({gpus} GPUs, "
                f"{int(resources.get('CPU', 0))} CPUs, {threads} a run): lower --jobs to that"
            )
        needs = {"num_cpus": threads, "num_gpus": 1 if gpus else 0}
        execution = replace(execution, threads=None if gpus else threads)
        if jobs == 1:  # joblib would do them in this process, which may have no GPU
            task = ray.remote(execute).options(**needs, max_retries=0)
            for run in runs:
                ray.get(task.remote(run, execution))
            return
        with parallel_config("ray", n_jobs=jobs, ray_remote_args=needs):
            Parallel(batch_size=1, pre_dispatch="all")(
                delayed(execute)(run, execution) for run in runs
            )


@contextmanager
def _connected(workers: Workers) -> Iterator["ray"]:  # type: ignore[name-defined]
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise InvalidValueError(
            "a cluster needs Ray: install it with  pip install 'noisebound[ray]'"
        ) from error
    register_ray()
    try:
        if not ray.is_initialized():
            _knock(workers.cluster)
            ray.init(
                address=None if workers.cluster == "local" else workers.cluster,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError) as error:
        raise InvalidValueError(
            f"no Ray cluster at {workers.cluster!r}: start one with  ray start --head , or have "
            f"one started here with  --cluster local  ({_first_line(error)})"
        ) from error
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise WorkerDiedError(_first_line(error)) from error


def _knock(address: str | None) -> None:
    """See whether anyone is there: Ray would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(str(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
