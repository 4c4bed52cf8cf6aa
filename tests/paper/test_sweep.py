"""Many runs, in real processes that fail and are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisebound.cli import main
from noisebound.errors import RunError
from noisebound.paper.run import DataSources, RunStore, execute
from noisebound.paper.sweep import run_sweep
from paper_runs import (
    LONGER,
    QUICK,
    RAY_RUNS,
    SHARED_RUNS,
    InterruptedSources,
    digit_runs,
    first_seconds,
    measured,
    run_command,
    sweep_here,
)
from processes import environment, forked


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a function that does a run in this process, once, and returns its metrics."""
    store = RunStore(tmp_path_factory.mktemp("alone"))

    def measured_alone(run):
        execute(run, store, DataSources(), threads=1)
        return measured(store, run)

    return measured_alone


def test_parallel_runs_equal_single_runs_and_a_failure_stops_no_other(alone, tmp_path):
    runs, store = digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1]), RunStore(tmp_path)
    (bad,) = digit_runs(["gce"], settings=["learning_rate=1e30", "epochs=5"])
    failures = run_sweep([*runs[:2], bad, *runs[2:]], store, DataSources(), jobs=2)
    assert list(failures) == [bad]
    assert "diverged" in failures[bad]
    assert [store.state(run) for run in runs] == ["finished"] * 6
    for run in runs:
        assert measured(store, run) == alone(run)


def test_a_process_that_is_killed_loses_nothing(alone, tmp_path):
    """Its run continues from the last checkpoint and ends with the same metrics."""
    store, sources = RunStore(tmp_path / "runs"), InterruptedSources(killed=tmp_path / "killed")
    runs = digit_runs(["ce", "ce+b"], settings=LONGER)
    with pytest.raises(RunError, match=r"a process was killed.*the same command continues"):
        run_sweep(runs, store, sources, jobs=2, checkpoint_seconds=0)
    begun = {run: first_seconds(store, run) for run in runs}
    assert any(begun.values())
    assert run_sweep(runs, store, DataSources(), jobs=1) == {}
    for run, seconds in begun.items():
        assert seconds in (None, first_seconds(store, run))  # the first epoch was not done again
        assert measured(store, run) == alone(run)


def test_two_sweeps_at_once_do_each_run_once(tmp_path):
    """Each is a process of its own, and finds the results of both when it ends."""
    sweeps = [forked(sweep_here, tmp_path) for _ in range(2)]
    for process in sweeps:
        process.join(300)
    assert [process.exitcode for process in sweeps] == [0, 0]
    for run in SHARED_RUNS:
        lines = RunStore(tmp_path).folder(run).metrics.read_text().splitlines()
        assert len(lines) == 2


def test_an_interrupted_sweep_goes_on(tmp_path, capsys):
    """The whole sweep is killed, and the same command finishes it without repeating a run."""
    command = [
        *("reproduce", "own", "--columns", "digits-0.4", "--methods", "ce", "ce+b"),
        *("--seeds", "2", "--jobs", "1", "--set", *QUICK, "--out", str(tmp_path / "out")),
    ]
    process = forked(run_command, command)
    store = RunStore(tmp_path / "out" / "runs")
    deadline = time.monotonic() + 120
    while not any(store.path.glob("*/result.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.join()
    done = {path: path.stat().st_mtime_ns for path in store.path.glob("*/result.json")}
    assert 1 <= len(done) < 4
    signals = signal.getsignal(signal.SIGTERM)  # which the command replaces
    with pytest.raises(SystemExit) as ended:
        main(command)
    signal.signal(signal.SIGTERM, signals)
    assert not ended.value.code
    assert len(list(store.path.glob("*/result.json"))) == 4
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert "CE+B" in capsys.readouterr().out


SCRIPT = Path(__file__).parent / "ray_sweep.py"


@pytest.fixture(scope="module")
def on_ray(tmp_path_factory):
    """A real local cluster: a sweep one of whose workers is killed, and one of a single job."""
    out = tmp_path_factory.mktemp("ray")
    result = subprocess.run(
        [sys.executable, SCRIPT, out],
        capture_output=True,
        text=True,
        start_new_session=True,
        env=environment(),
    )
    assert result.returncode == 0, result.stderr
    return out


def test_a_ray_cluster_gives_the_same_results(on_ray, alone):
    """Although one of its workers is killed."""
    assert (on_ray / "killed").read_text().isdigit()
    for run in RAY_RUNS:
        assert measured(RunStore(on_ray / "two"), run) == alone(run)


def test_a_single_job_runs_on_the_cluster(on_ray):
    """The workers of the cluster may run in another folder."""
    (run,) = digit_runs(["mse"])
    assert RunStore(on_ray / "one").state(run) == "finished"


def test_no_cluster_at_that_address(tmp_path):
    """Not "auto": that would find the cluster of another test."""
    with pytest.raises(
        ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:1': start one with  ray"
    ):
        run_sweep(digit_runs(["ce"]), RunStore(tmp_path), DataSources(), cluster="127.0.0.1:1")
