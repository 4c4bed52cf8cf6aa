"""Processes that tests start, which import the tests' modules and the same noisebound."""

import multiprocessing.forkserver
import os
import socket
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

import noisebound

TESTS = Path(__file__).parent
SOURCES = Path(noisebound.__file__).parents[1]


def environment() -> dict[str, str]:
    """Return this process's environment, with the tests and noisebound first on the path."""
    paths = [str(TESTS), str(SOURCES), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@cache
def forkserver() -> ForkServerContext:
    """Return a context whose processes are forks of one that has imported all.

    A new interpreter would take seconds to import it. Polars hangs in a fork.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["paper_runs", "lightning_fabric"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        multiprocessing.forkserver.ensure_running()
    return context


def forked(
    target: Callable[..., object],
    *arguments: object,
    variables: dict[str, str] | None = None,
    errors: Path | None = None,
) -> ForkServerProcess:
    """Start a function in a process of its own, with this process's environment.

    Args:
        target: the function
        arguments: its arguments
        variables: more variables of the environment
        errors: a file for what it writes to standard error
    """
    variables = {**os.environ, **(variables or {})}
    process = forkserver().Process(target=_run, args=(variables, errors, target, arguments))
    process.start()
    return process


def run_ranks(
    target: Callable[..., object], *arguments: object, errors: Path | None = None
) -> Sequence[int | None]:
    """Run a function in two processes that find each other, as under torchrun; return exit codes.

    Fabric starts no processes then, which would import all again.
    """
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    shared |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
    ranks = [
        forked(
            target,
            *arguments,
            variables=shared | {"RANK": rank, "LOCAL_RANK": rank},
            errors=errors,
        )
        for rank in ("0", "1")
    ]
    for process in ranks:
        process.join(300)
    return [process.exitcode for process in ranks]


def _run(
    variables: dict[str, str],
    errors: Path | None,
    target: Callable[..., object],
    arguments: Sequence[object],
) -> None:
    os.environ.update(variables)
    if errors is not None:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    target(*arguments)
