"""Sweeps: many runs, by processes of this machine or of a Ray cluster.

All results are in the runs' folders, so any process can continue a run.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from noisebound.errors import RunError
from noisebound.paper.run import DataSources, RunConfig, RunStore, execute
from noisebound.system.progress import counting
from noisebound.system.ray_cluster import connected, first_line

_CONTINUED = "finished runs are kept, and the same command continues the others"


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
    distinct = dict.fromkeys(runs)
    to_do = [run for run in distinct if store.state(run) != "finished"]
    for run in to_do:
        store.folder(run).failure.unlink(missing_ok=True)
    train = partial(
        execute, store=store, sources=sources.resolved(), checkpoint_seconds=checkpoint_seconds
    )
    done = _on_cluster(train, to_do, jobs, cluster) if cluster else _here(train, to_do, jobs)
    with counting("training", len(distinct), done=len(distinct) - len(to_do)) as advance:
        for _ in done:
            advance(1)
    states = {run: store.state(run) for run in to_do}
    for run, state in states.items():
        if state == "waiting":
            raise FileNotFoundError(
                f"{run.description} was done, but there is no result in {store.folder(run).path}: "
                "can all machines see that folder?"
            )
    return {run: store.error(run) or "" for run, state in states.items() if state == "failed"}


def _here(train: "partial[None]", runs: Sequence[RunConfig], jobs: int | None) -> Iterator[None]:
    """Do the runs on this machine, and yield after each."""
    jobs = jobs or (1 if torch.cuda.is_available() else cpu_count())
    if jobs > 1:  # a single job computes with the threads of this process
        train = partial(train, threads=max(1, cpu_count() // jobs))
    parallel = Parallel(max(1, min(jobs, len(runs))), batch_size=1, return_as="generator_unordered")
    try:
        yield from parallel(delayed(train)(run) for run in runs)
    except TerminatedWorkerError as error:
        raise RunError(
            "a process was killed, perhaps because memory ran out: run with fewer `jobs`; "
            + _CONTINUED
        ) from error


def _on_cluster(
    train: "partial[None]", runs: Sequence[RunConfig], jobs: int | None, cluster: str
) -> Iterator[None]:
    """Do the runs on a cluster, and yield after each. Ray repeats a run whose process dies."""
    with connected(cluster) as ray:
        gpus = min(1, int(ray.cluster_resources().get("GPU", 0)))
        task = ray.remote(train.func).options(num_cpus=1, num_gpus=gpus, max_retries=1)
        options = train.keywords | {"threads": None if gpus else 1}
        waiting, under_way = list(reversed(runs)), list[Any]()
        while waiting or under_way:
            while waiting and len(under_way) < (jobs or len(runs)):
                under_way.append(task.remote(waiting.pop(), **options))
            done, under_way = ray.wait(under_way)
            try:
                ray.get(done)
            except ray.exceptions.RayError as error:
                raise RunError(f"the cluster failed ({first_line(error)}); {_CONTINUED}") from error
            yield
