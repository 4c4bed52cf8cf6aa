"""Many runs, in real processes that fail and are killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from joblib.externals.loky.process_executor import ProcessPoolExecutor

from noisebound.cli import main
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import DataSources, Plan, RunStore, execute
from noisebound.paper.sweep import progress_line, run_sweep
from paper_runs import (
    LONGER,
    QUICK,
    RAY_RUNS,
    DeadlySources,
    InterruptedSources,
    digit_runs,
    first_seconds,
    measured,
    run_command,
)
from processes import environment, forked, forkserver


@pytest.fixture(scope="module", autouse=True)
def forked_workers():
    """Fork workers from a process that has imported all, which saves seconds for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "noisebound.paper.sweep.ProcessPoolExecutor",
            partial(ProcessPoolExecutor, context=forkserver()),
        )
        yield


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


def test_a_worker_that_is_killed_loses_nothing(alone, tmp_path):
    """Its run continues from the last checkpoint and ends with the same metrics."""
    store, sources = RunStore(tmp_path / "runs"), InterruptedSources(killed=tmp_path / "killed")
    runs, begun = digit_runs(["ce", "ce+b"], settings=LONGER), {}

    def note_first_epochs():
        while not sources.killed.exists():
            time.sleep(0.01)
        begun.update({run: first_seconds(store, run) for run in runs})

    observer = threading.Thread(target=note_first_epochs)
    observer.start()
    assert run_sweep(runs, store, sources, jobs=2, checkpoint_seconds=0) == {}
    observer.join()
    under_way = [run for run in runs if begun[run] is not None]
    assert under_way
    for run in under_way:
        assert first_seconds(store, run) == begun[run]  # the first epoch was not done again
        assert measured(store, run) == alone(run)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_kills_its_workers_is_recorded_as_failed(tmp_path, jobs):
    """Runs that were under way when a worker died are repeated one at a time."""
    sources = DeadlySources()
    good = digit_runs(["ce", "sce"])
    (deadly,) = Plan(CPU, (0,), sources).runs(COLUMNS["mnist-0.4"], "ce")
    failures = run_sweep([good[0], deadly, good[1]], RunStore(tmp_path), sources, jobs=jobs)
    assert list(failures) == [deadly]
    assert "its worker died" in failures[deadly]
    assert "\n" not in failures[deadly]


def test_two_sweeps_at_once_do_each_run_once(tmp_path):
    """Each has a worker of its own, and finds the results of both when it ends."""
    store, runs = RunStore(tmp_path), digit_runs(["ce", "ce+b"], seeds=[0, 1])
    together = threading.Barrier(2)

    def sweep(_):
        together.wait()
        assert run_sweep(runs, store, DataSources(), jobs=1) == {}
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
        *("reproduce", "own", "--columns", "digits-0.4", "--methods", "ce", "ce+b"),
        *("--seeds", "2", "--jobs", "2", "--set", *QUICK, "--out", str(tmp_path / "out")),
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


def test_progress_in_words(tmp_path):
    runs = digit_runs(["ce", "sce", "gce"])
    store = RunStore(tmp_path)

    def line():
        return progress_line({run: store.state(run) for run in runs}, 0, 1.0)

    assert line() == "3 runs: 0 finished, 0 failed"
    execute(runs[0], store, DataSources())
    store.record_failure(runs[1], "no")
    assert line() == "3 runs: 1 finished, 1 failed, about 0:00:00 left"


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
