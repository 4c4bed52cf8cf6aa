"""Many runs, in real processes that fail and are killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from noisebound.paper.plan import Plan
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import Execution, RunStore, execute
from noisebound.paper.sources import DataSources
from noisebound.paper.sweep import Workers, progress_line, run_sweep
from paper_runs import (
    LONG,
    DeadlySources,
    digit_runs,
    first_seconds,
    kill_a_worker,
    measured,
)

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def findable_modules():
    """Let processes find the tests' modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        yield


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A function that returns what a run measures in this process; each run is done once."""
    store = RunStore(tmp_path_factory.mktemp("alone"))

    def measured_alone(run):
        execute(run, Execution(store, DataSources(), threads=1))
        return measured(store, run)

    return measured_alone


def test_processes_find_what_one_finds(alone, tmp_path):
    runs = digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1])
    store = RunStore(tmp_path)
    assert run_sweep(runs, store, DataSources(), Workers(jobs=2)) == {}
    for run in runs:
        assert measured(store, run) == alone(run)


def test_a_run_that_fails_does_not_keep_the_others(tmp_path):
    store = RunStore(tmp_path)
    good = digit_runs(["ce", "sce"])
    (bad,) = digit_runs(["gce"], settings=["learning_rate=1e30", "epochs=5"])
    failures = run_sweep([good[0], bad, good[1]], store, DataSources(), Workers(jobs=2))
    assert list(failures) == [bad]
    assert "diverged" in failures[bad]
    assert [store.state(run) for run in good] == ["finished", "finished"]


def test_a_worker_that_is_killed_loses_nothing(alone, tmp_path):
    """What it was doing goes on from its last checkpoint, and comes to the same."""
    store = RunStore(tmp_path)
    runs = digit_runs(["ce", "ce+b", "gce"], settings=LONG)
    begun: dict = {}

    def kill():
        kill_a_worker(store, "LokyProcess")
        begun.update({run: first_seconds(store, run) for run in runs})

    killer = threading.Thread(target=kill)
    killer.start()
    assert run_sweep(runs, store, DataSources(), Workers(jobs=2), checkpoint_seconds=0) == {}
    killer.join()
    under_way = [run for run in runs if begun[run] is not None]
    assert under_way
    for run in under_way:
        assert first_seconds(store, run) == begun[run]  # the first epoch was not done again
    assert measured(store, under_way[0]) == alone(under_way[0])


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_kills_its_workers_is_found_out(tmp_path, jobs):
    sources = DeadlySources()
    good = digit_runs(["ce", "sce"])
    (deadly,) = Plan(CPU, (0,), sources).runs(COLUMNS["mnist-0.4"], "ce")
    failures = run_sweep([good[0], deadly, good[1]], RunStore(tmp_path), sources, Workers(jobs))
    assert list(failures) == [deadly]
    assert "its worker died" in failures[deadly]
    assert "\n" not in failures[deadly]


def test_two_sweeps_at_once_do_each_run_once(tmp_path):
    script = "import sys, paper_runs as runs; runs.sweep_of_four(sys.argv[1])"
    command = [sys.executable, "-c", script, tmp_path]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert found[0].count("test_top1") == 4 * 2 * 2  # runs, epochs, last and averaged weights
    assert found[0] == found[1]
    for path in tmp_path.glob("*/metrics.jsonl"):
        assert len(path.read_text().splitlines()) == 2


def test_an_interrupted_sweep_goes_on(tmp_path):
    """The whole sweep is killed, and the same command finishes it without repeating a run."""
    command = [
        *(sys.executable, "-m", "noisebound", "reproduce", "own", "--columns", "digits-0.4"),
        *("--methods", "ce", "ce+b", "--seeds", "2", "--jobs", "2"),
        *("--set", *LONG, "epochs=20", "--out", str(tmp_path / "out")),
    ]
    process = subprocess.Popen(command, start_new_session=True)
    store = RunStore(tmp_path / "out" / "runs")
    deadline = time.monotonic() + 120
    while not any(store.path.glob("*/result.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in store.path.glob("*/result.json")}
    assert 1 <= len(done) < 4
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert len(list(store.path.glob("*/result.json"))) == 4
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert "CE+B" in result.stdout


def test_progress_in_words(tmp_path):
    runs = digit_runs(["ce", "sce", "gce"])
    store = RunStore(tmp_path)

    def line():
        return progress_line({run: store.state(run) for run in runs}, 0, 1.0)

    assert line() == "3 runs: 0 finished, 0 running, 0 failed"
    execute(runs[0], Execution(store, DataSources()))
    store.record_failure(runs[1], "no")
    assert line() == "3 runs: 1 finished, 0 running, 1 failed, about 0:00:00 left"


SCRIPT = Path(__file__).parent / "ray_sweep.py"


@pytest.fixture(scope="module")
def on_ray(tmp_path_factory):
    """A real local cluster: a sweep, and one of whose workers one is killed."""
    out = tmp_path_factory.mktemp("ray")
    result = subprocess.run(
        [sys.executable, SCRIPT, out],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert result.returncode == 0, result.stderr
    return out


def test_a_ray_cluster_finds_what_this_machine_finds(on_ray, alone):
    for run in digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1]):
        assert measured(RunStore(on_ray / "undisturbed"), run) == alone(run)


def test_one_job_is_done_by_the_cluster_too(on_ray):
    """And a cluster whose workers stand in another folder finds the way."""
    (run,) = digit_runs(["mse"])
    assert RunStore(on_ray / "one").state(run) == "finished"


def test_a_ray_worker_that_is_killed_loses_nothing(on_ray, alone):
    assert (on_ray / "killed").read_text().isdigit()
    for run in digit_runs(["ce", "ce+b"], settings=LONG):
        assert measured(RunStore(on_ray / "disturbed"), run) == alone(run)


def test_no_cluster_at_that_address(tmp_path):
    """Not "auto": that would find the cluster of another test."""
    workers = Workers(cluster="127.0.0.1:1")
    with pytest.raises(
        ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:1': start one with  ray"
    ):
        run_sweep(digit_runs(["ce"]), RunStore(tmp_path), DataSources(), workers)
