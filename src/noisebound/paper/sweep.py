"""Sweeps: many runs, by processes of this machine or of a Ray cluster.

All results are in the runs' folders, so any process can continue a run. The sweep itself does no
run, so it survives one that uses up the memory.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import torch
from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

from noisebound.paper.run import DataSources, RunConfig, RunStore, State, execute
from noisebound.system.progress import ProgressText, time_left
from noisebound.system.ray_cluster import connected
from noisebound.system.signals import interruption
from noisebound.training.devices import usable_cores

Work: TypeAlias = "partial[None]"
"""``execute`` with everything but the run."""

_Pool: TypeAlias = tuple[Callable[[RunConfig], "Future[None]"], int, type[Exception]]
"""A function that begins a run, the number of runs at once, and the error if a worker dies."""

_LOG_SECONDS = 60.0  # between lines of a log: sweeps take hours


def run_sweep(
    runs: Sequence[RunConfig],
    store: RunStore,
    sources: DataSources,
    jobs: int | None = None,
    cluster: str | None = None,
    *,
    checkpoint_seconds: float = 30.0,
) -> dict[RunConfig, str]:
    """Do the unfinished runs; return those that failed, with their errors.

    When a worker dies, the runs that were under way are continued one at a time. A run whose worker
    dies again has failed.

    Args:
        runs: the runs to finish
        store: the folders of the runs
        sources: the places of the data
        jobs: the number of runs at once; by default one per core, one if this machine has a GPU, or
            as many as a cluster has room for, with one GPU each if it has any
        cluster: the address of a Ray cluster, ``"auto"`` for the one that runs here, ``"local"`` to
            start one; by default processes of this machine
        checkpoint_seconds: the least time between checkpoints, which are written after an epoch
    """
    store = RunStore(store.path.resolve())  # workers may run in another folder
    work = partial(
        execute, store=store, sources=sources.resolved(), checkpoint_seconds=checkpoint_seconds
    )
    states = {run: store.state(run) for run in runs}
    to_do = [run for run, state in states.items() if state != "finished"]
    done_before, begun = len(states) - len(to_do), time.monotonic()
    for run in to_do:
        store.folder(run).failure.unlink(missing_ok=True)
    with ProgressText(log_seconds=_LOG_SECONDS) as text:

        def show() -> None:
            states.update({run: store.state(run) for run in to_do if states[run] != "finished"})
            text.show(progress_line(states, done_before, time.monotonic() - begun))

        show()
        while to_do:
            interrupted = do_runs(to_do, work, show, jobs, cluster)
            for run in interrupted:
                if do_runs([run], work, show, jobs, cluster):
                    store.record_failure(run, "its worker died: it was killed, or out of memory")
            show()
            to_do = [run for run in to_do if states[run] == "waiting"]
            if to_do and not interrupted:
                raise FileNotFoundError(
                    f"{to_do[0].description} was done, but there is no result in "
                    f"{store.folder(to_do[0]).path}: can all machines see that folder?"
                )
    return {run: store.error(run) or "" for run in states if states[run] == "failed"}


def do_runs(
    runs: Sequence[RunConfig],
    work: Work,
    show: Callable[[], None],
    jobs: int | None,
    cluster: str | None,
) -> list[RunConfig]:
    """Do runs in other processes; return those that were under way when a worker died.

    After a death, no further run is begun. ``show`` is called after each run.
    """
    waiting, died = list(reversed(runs)), list[RunConfig]()
    under_way: dict[Future[None], RunConfig] = {}
    most = len(runs)
    place = _cluster(work, cluster, jobs, most) if cluster else _processes(work, jobs, most)
    try:
        with place as (submit, at_once, death):
            while under_way or (waiting and not died):
                while waiting and not died and len(under_way) < at_once:
                    run = waiting.pop()
                    under_way[submit(run)] = run
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    run = under_way.pop(future)
                    try:
                        future.result()
                    except death:
                        died.append(run)
                    show()
    except Exception as error:
        # Ctrl-C at a bad moment makes the workers fail while they are stopped.
        raise interruption(error) or error from error
    return died


@contextmanager
def _processes(work: Work, jobs: int | None, most: int) -> Iterator[_Pool]:
    cores = usable_cores()
    jobs = jobs or (1 if torch.cuda.is_available() else cores)
    threads = max(1, cores // jobs)  # for one run too: the last digits depend on it
    jobs = min(jobs, most)
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    executor = ProcessPoolExecutor(max_workers=jobs, env=dict.fromkeys(variables, str(threads)))
    try:
        yield partial(executor.submit, work, threads=threads), jobs, TerminatedWorkerError
    except BaseException:  # Ctrl-C too: the runs under way must not continue
        executor.shutdown(kill_workers=True)
        raise
    executor.shutdown()


@contextmanager
def _cluster(work: Work, cluster: str, jobs: int | None, most: int) -> Iterator[_Pool]:
    with connected(cluster) as ray:
        gpus = min(1, int(ray.cluster_resources().get("GPU", 0)))
        task = ray.remote(work.func).options(num_cpus=1, num_gpus=gpus, max_retries=0)
        threads = None if gpus else 1

        def submit(run: RunConfig) -> "Future[None]":
            future: Future[None] = task.remote(run, **work.keywords, threads=threads).future()
            return future

        yield submit, min(jobs or most, most), ray.exceptions.RayError


def progress_line(states: Mapping[RunConfig, State], done_before: int, seconds: float) -> str:
    """Return the progress as text; ``done_before`` runs were finished ``seconds`` ago."""
    counts = Counter(states.values())
    line = f"{len(states)} runs: {counts['finished']} finished, {counts['failed']} failed"
    done, left = counts["finished"] + counts["failed"] - done_before, counts["waiting"]
    return f"{line}, {time_left(seconds / done * left)}" if left and done > 0 else line
