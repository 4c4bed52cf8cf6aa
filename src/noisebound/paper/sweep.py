"""Sweeps: many runs, by processes of this machine or of a Ray cluster.

All results are in the run's folder, so any worker can do a run, in any number of attempts. A run is
never done in the process of the sweep, so the sweep survives a run that uses up the memory.
"""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

from noisebound.errors import InvalidValueError
from noisebound.paper.plan import RunConfig
from noisebound.paper.run import Execution, RunStore, State, execute
from noisebound.paper.sources import DataSources
from noisebound.system.progress import ProgressText, time_left
from noisebound.system.ray_cluster import connected, first_line
from noisebound.system.signals import interruption
from noisebound.training.devices import usable_cores

# Heuristics: one death may be an accident, and every further one costs the start of workers.
_DEATHS_OF_A_SUSPECT = 2
"""A run during which this many workers died is done alone."""
_DEATHS_IN_VAIN = 3
"""A sweep ends with an error after this many workers in a row died without doing a run."""
_LOOK_SECONDS = 1.0  # between looks at the runs' folders, on a terminal
_LOG_SECONDS = 60.0  # between lines of a log: sweeps take hours


@dataclass(frozen=True)
class Workers:
    """The number and place of the workers.

    Args:
        jobs: the number of runs at once; by default one per core, one if this machine has a GPU, or
            one per GPU of a cluster
        cluster: the address of a Ray cluster, ``"auto"`` for the one that runs here, ``"local"`` to
            start one; by default processes of this machine
        threads: torch's threads per worker; by default a share of the cores, one on a cluster
    """

    jobs: int | None = None
    cluster: str | None = None
    threads: int | None = None


class WorkerDiedError(ChildProcessError):
    """A worker ended during a run: it was killed, or out of memory."""


def run_sweep(
    runs: Sequence[RunConfig],
    store: RunStore,
    sources: DataSources,
    workers: Workers,
    *,
    checkpoint_seconds: float = 30.0,
) -> dict[RunConfig, str]:
    """Do the unfinished runs; return those that failed, with their errors.

    When a worker dies, the runs that were under way are continued. A run that was under way when
    workers died twice is done alone: if its worker dies again, the run is to blame and has failed.

    Args:
        runs: the runs to finish
        store: the folders of the runs
        sources: where the data is
        workers: how many processes do them, and where
        checkpoint_seconds: seconds between checkpoints, which are written after an epoch
    """
    store = RunStore(store.path.resolve())  # workers may run in another folder
    name = secrets.token_hex(8)
    execution = Execution(store, sources.resolved(), name, checkpoint_seconds=checkpoint_seconds)
    runs = list(dict.fromkeys(runs))
    with _shown_progress(runs, store, name):
        _do_all(runs, execution, workers)
    errors = {run: store.error(run) for run in runs if store.result(run) is None}
    return {run: error for run, error in errors.items() if error is not None}


def _do_all(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    store = execution.store
    to_do = [run for run in runs if store.state(run) != "finished"]
    for run in to_do:
        store.folder(run).failure.unlink(missing_ok=True)
    deaths: Counter[RunConfig] = Counter()
    deaths_in_vain = 0
    while to_do:
        suspects = [run for run in to_do if deaths[run] >= _DEATHS_OF_A_SUSPECT]
        for run in suspects:
            try:
                do_runs([run], execution, replace(workers, jobs=1))
            except WorkerDiedError as error:
                store.record_failure(run, f"its worker died: {error}")
        others = [run for run in to_do if run not in suspects]
        try:
            do_runs(others, execution, workers)
        except WorkerDiedError:
            under_way = [run for run in others if store.state(run, execution.sweep) == "running"]
            for run in under_way:
                store.folder(run).running.unlink(missing_ok=True)
            deaths.update(under_way)
            deaths_in_vain = 0 if under_way else deaths_in_vain + 1
            if deaths_in_vain >= _DEATHS_IN_VAIN:
                raise
        else:
            _check_done(others, store)
        to_do = [run for run in to_do if store.state(run) not in ("finished", "failed")]


def _check_done(runs: Sequence[RunConfig], store: RunStore) -> None:
    for run in runs:
        if store.state(run) not in ("finished", "failed"):
            raise FileNotFoundError(
                f"{run.description} was done, but there is no result in "
                f"{store.folder(run).path}: do all machines see that folder?"
            )


def do_runs(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    """Do all runs, in any order; results are in their folders.

    Raises:
        WorkerDiedError: a worker died; some of the runs may be done
    """
    try:
        if workers.cluster is None:
            _do_here(runs, execution, workers)
        else:
            _do_on_ray(runs, execution, workers, workers.cluster)
    except Exception as error:
        # Ctrl-C at a bad moment makes the workers fail while they are stopped.
        raise interruption(error) or error from error


def _do_here(runs: Sequence[RunConfig], execution: Execution, workers: Workers) -> None:
    cores = usable_cores()
    jobs = workers.jobs or (1 if torch.cuda.is_available() else cores)
    threads = workers.threads or max(1, cores // jobs)
    execution = replace(execution, threads=threads)
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    executor = ProcessPoolExecutor(max_workers=jobs, env=dict.fromkeys(variables, str(threads)))
    tasks: set[Future[None]] = set()
    try:
        for run in runs:  # not all at once: killing an executor with tasks left in its queue fails
            tasks.add(executor.submit(execute, run, execution))
            if len(tasks) == jobs:
                done, tasks = wait(tasks, return_when=FIRST_COMPLETED)
                for task in done:
                    task.result()
        for task in tasks:
            task.result()
    except BaseException as error:  # Ctrl-C too: the runs under way must not go on
        executor.shutdown(kill_workers=True)
        if isinstance(error, TerminatedWorkerError):
            raise WorkerDiedError(first_line(error)) from error
        raise
    executor.shutdown()


def _do_on_ray(
    runs: Sequence[RunConfig], execution: Execution, workers: Workers, cluster: str
) -> None:
    with connected(cluster) as ray:
        from ray.util.joblib import register_ray

        register_ray()
        resources = ray.cluster_resources()
        gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
        threads = workers.threads or 1
        room = min(gpus or cores, cores // threads)
        jobs = workers.jobs or room
        if not 1 <= jobs <= room:
            raise InvalidValueError(
                f"the cluster has room for {room} runs at once ({gpus} GPUs, {cores} CPUs, "
                f"{threads} per run): lower `jobs` to that"
            )
        needs = {"num_cpus": threads, "num_gpus": 1 if gpus else 0}
        execution = replace(execution, threads=None if gpus else threads)
        try:
            if jobs == 1:  # joblib would do them in this process, which may have no GPU
                task = ray.remote(execute).options(**needs, max_retries=0)
                for run in runs:
                    ray.get(task.remote(run, execution))
                return
            with parallel_config("ray", n_jobs=jobs, ray_remote_args=needs):
                Parallel(batch_size=1, pre_dispatch="all")(
                    delayed(execute)(run, execution) for run in runs
                )
        except ray.exceptions.RayError as error:
            raise WorkerDiedError(first_line(error)) from error


@contextmanager
def _shown_progress(runs: Sequence[RunConfig], store: RunStore, sweep: str) -> Iterator[None]:
    """Show the progress: one live line on a terminal, or one log line per minute."""
    begun, states = time.monotonic(), {run: store.state(run, sweep) for run in runs}
    done_before, ended = Counter(states.values())["finished"], threading.Event()

    def line() -> str:
        unfinished = [run for run, state in states.items() if state != "finished"]
        states.update({run: store.state(run, sweep) for run in unfinished})
        return progress_line(states, done_before, time.monotonic() - begun)

    def watch() -> None:
        with ProgressText(log_seconds=_LOG_SECONDS) as text:
            while not ended.wait(_LOOK_SECONDS):
                text.show(line())
            text.show(line())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def progress_line(states: Mapping[RunConfig, State], done_before: int, seconds: float) -> str:
    """Return the progress as text; ``done_before`` runs were finished ``seconds`` ago."""
    counts = Counter(states.values())
    running, failed = counts["running"], counts["failed"]
    line = f"{len(states)} runs: {counts['finished']} finished, {running} running, {failed} failed"
    done, left = counts["finished"] + failed - done_before, counts["waiting"] + running
    if left and done > 0:  # a running run counts as half done
        line += f", {time_left(seconds / (done + running / 2) * (left - running / 2))}"
    return line
