"""Many runs, in real processes that fail and are killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from noisebound.cli import main
from noisebound.paper.plan import Plan
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import Execution, RunStore, execute
from noisebound.paper.sources import DataSources
from noisebound.paper.sweep import Workers, progress_line, run_sweep
from paper_runs import (
    LONG,
    RAY_RUNS,
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


def test_processes_find_what_one_finds_and_a_run_that_fails_keeps_no_other(alone, tmp_path):
    runs, store = digit_runs(["ce", "ce+b", "elr"], seeds=[0, 1]), RunStore(tmp_path)
    (bad,) = digit_runs(["gce"], settings=["learning_rate=1e30", "epochs=5"])
    failures = run_sweep([*runs[:2], bad, *runs[2:]], store, DataSources(), Workers(jobs=2))
    assert list(failures) == [bad]
    assert "diverged" in failures[bad]
    assert [store.state(run) for run in runs] == ["finished"] * 6
    for run in runs:
        assert measured(store, run) == alone(run)


def test_a_worker_that_is_killed_loses_nothing(alone, tmp_path):
    """What it was doing goes on from its last checkpoint, and comes to the same."""
    store = RunStore(tmp_path)
    runs = digit_runs(["ce", "ce+b"], settings=LONG)
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
def test_a_run_that_kills_its_workers_is_found_out(tmp_path, monkeypatch, jobs):
    """What was under way when a worker died is done again, each run alone."""
    monkeypatch.setattr("noisebound.paper.sweep._DEATHS_OF_A_SUSPECT", 1)  # fewer to start
    sources = DeadlySources()
    good = digit_runs(["ce", "sce"])
    (deadly,) = Plan(CPU, (0,), sources).runs(COLUMNS["mnist-0.4"], "ce")
    failures = run_sweep([good[0], deadly, good[1]], RunStore(tmp_path), sources, Workers(jobs))
    assert list(failures) == [deadly]
    assert "its worker died" in failures[deadly]
    assert "\n" not in failures[deadly]


def test_two_sweeps_at_once_do_each_run_once(tmp_path):
    """Each has a worker of its own, and finds the results of both when it ends."""
    store, runs = RunStore(tmp_path), digit_runs(["ce", "ce+b"], seeds=[0, 1])
    together = threading.Barrier(2)

    def sweep(_):
        together.wait()
        assert run_sweep(runs, store, DataSources(), Workers(jobs=1)) == {}
        return [measured(store, run) for run in runs]

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(sweep, range(2)))
    assert [set(epochs) for epochs in found[0]] == [{1, 2}] * 4
    assert found[0] == found[1]
    for path in tmp_path.glob("*/metrics.jsonl"):
        assert len(path.read_text().splitlines()) == 2


def test_an_interrupted_sweep_goes_on(tmp_path, capsys):
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
    signals = signal.getsignal(signal.SIGTERM)  # which the command replaces
    with pytest.raises(SystemExit) as ended:
        main(command[3:])
    signal.signal(signal.SIGTERM, signals)
    assert not ended.value.code
    assert len(list(store.path.glob("*/result.json"))) == 4
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert "CE+B" in capsys.readouterr().out


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
    """A real local cluster: a sweep one of whose workers is killed, and one of a single job."""
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
    """Although one of its workers is killed."""
    assert (on_ray / "killed").read_text().isdigit()
    for run in RAY_RUNS:
        assert measured(RunStore(on_ray / "two"), run) == alone(run)


def test_one_job_is_done_by_the_cluster_too(on_ray):
    """And a cluster whose workers stand in another folder finds the way."""
    (run,) = digit_runs(["mse"])
    assert RunStore(on_ray / "one").state(run) == "finished"


def test_no_cluster_at_that_address(tmp_path):
    """Not "auto": that would find the cluster of another test."""
    workers = Workers(cluster="127.0.0.1:1")
    with pytest.raises(
        ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:1': start one with  ray"
    ):
        run_sweep(digit_runs(["ce"]), RunStore(tmp_path), DataSources(), workers)
