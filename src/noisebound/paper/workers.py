"""The workers that do runs: processes of this machine or of a Ray cluster, both through joblib.

A run is always done in another process than the sweep's, so that the sweep survives if the run is
killed or takes all the memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

from noisebound.errors import InvalidValueError
from noisebound.paper.plan import RunConfig
from noisebound.paper.run import Execution, execute
from noisebound.system.ray_cluster import connected, first_line
from noisebound.system.signals import interruption
from noisebound.training.devices import usable_cores


@dataclass(frozen=True)
class Workers:
    """How many workers there are, and where they run.

    Args:
        jobs: the number of runs at once; by default one per core, or one if this machine has a GPU,
            or one per GPU of a cluster
        cluster: the address of a Ray cluster, ``"auto"`` for the one running here,
            ``"local"`` to start one; by default processes of this machine
        threads: torch's threads per worker; by default a share of the cores, on a cluster one
    """

    jobs: int | None = None
    cluster: str | None = None
    threads: int | None = None


class WorkerDiedError(ChildProcessError):
    """A worker ended during a run: it was killed, or out of memory."""


def do_runs(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    """Do all runs, in any order; results are in their folders.

    Raises:
        WorkerDiedError: a worker died; some of the runs may be done
    """
    try:
        if workers.cluster is None:
            _do_here(runs, execution, workers)
        else:
            _do_on_ray(runs, execution, workers)
    except Exception as error:
        # Ctrl-C at a bad moment makes joblib fail while it tidies up.
        raise interruption(error) or error from error


def _do_here(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    cores = usable_cores()
    jobs = workers.jobs or (1 if torch.cuda.is_available() else cores)
    threads = workers.threads or max(1, cores // jobs)
    execution = replace(execution, threads=threads)
    try:
        if jobs == 1:
            _do_one_by_one(runs, execution, threads)
            return
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads):
            Parallel(batch_size=1, pre_dispatch="all")(
                delayed(execute)(run, execution) for run in runs
            )
    except TerminatedWorkerError as error:
        raise WorkerDiedError(first_line(error)) from error


def _do_one_by_one(runs: Sequence[RunConfig], execution: Execution, threads: int) -> None:
    """Do the runs in one worker, where joblib would start none."""
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    executor = ProcessPoolExecutor(max_workers=1, env=dict.fromkeys(variables, str(threads)))
    try:
        for task in [executor.submit(execute, run, execution) for run in runs]:
            task.result()
    except BaseException:  # Ctrl-C too: the run under way must not go on
        executor.shutdown(kill_workers=True)
        raise
    executor.shutdown()


def _do_on_ray(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    with _connected(workers) as ray:
        resources = ray.cluster_resources()
        gpus, threads = int(resources.get("GPU", 0)), workers.threads or 1
        room = min(gpus or 10**9, int(resources.get("CPU", 0)) // threads)
        jobs = workers.jobs or room
        if not 1 <= jobs <= room:
            raise InvalidValueError(
                f"the cluster has room for {room} runs at once ({gpus} GPUs, "
                f"{int(resources.get('CPU', 0))} CPUs, {threads} per run): lower `jobs` to that"
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
    assert workers.cluster is not None
    with connected(workers.cluster) as ray:
        from ray.util.joblib import register_ray

        register_ray()
        try:
            yield ray
        except ray.exceptions.RayError as error:
            raise WorkerDiedError(first_line(error)) from error
