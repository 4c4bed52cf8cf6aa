"""Ctrl-C and SIGTERM end a command without a traceback, at any time."""

import os
import signal
import subprocess
import sys
import time

import pytest

from noisebound.errors import InvalidValueError
from noisebound.runs.keeper import read_metrics
from noisebound.system.signals import Terminated, interruption
from processes import environment

FIT = (
    *("fit", "digits", "--noise-rate", "0.4", "--epochs", "100000", "--accelerator", "cpu"),
    *("--model", "mlp", "--average-epochs", "0"),
)
REPRODUCE = (
    *("reproduce", "own", "--columns", "digits-0.4", "--methods", "ce", "ce+b", "--seeds", "6"),
    *("--set", "epochs=2000", "train_examples=400"),
)

pytestmark = pytest.mark.usefixtures("heeds_interrupts")


def started(*arguments):
    """Start a command in its own session, as in its own terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "noisebound", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )


def wait_for_epochs(folder, process):
    deadline = time.monotonic() + 240
    while not any(read_metrics(path) for path in folder.rglob("metrics.jsonl")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(process):
    """Return the exit code and the output of the command and all its processes."""
    _, complaint = process.communicate(timeout=240)
    return process.returncode, complaint


@pytest.mark.parametrize("moment", [0.2, 0.5, 1.0])
def test_ctrl_c_in_the_first_second(moment):
    """After a tenth of a second, Python has started and torch has not."""
    process = started(*FIT, "--out", "nowhere")
    deadline = time.monotonic() + 60
    while not is_importing(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGINT)
    code, complaint = ended(process)
    assert code in (-signal.SIGINT, 130)  # to a shell, 130 is both
    assert "Traceback" not in complaint


def is_importing(pid):
    """True once Python has begun to load torch's libraries."""
    with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123
        return "libtorch" in maps.read()


def test_sigterm_ends_a_training_as_ctrl_c_does(tmp_path):
    process = started(*FIT, "--out", tmp_path / "run")
    wait_for_epochs(tmp_path, process)
    process.terminate()
    code, complaint = ended(process)
    assert code == 143
    assert "interrupted; continue with --resume" in complaint
    assert "Traceback" not in complaint
    assert not list(tmp_path.rglob(".*.part"))


def test_sigterm_to_the_first_of_two_ranks(tmp_path):
    """The other rank ends too, without an error message."""
    process = started(*FIT, "--out", tmp_path / "run", "--devices", "2")
    wait_for_epochs(tmp_path, process)
    process.terminate()
    code, complaint = ended(process)  # which waits for both, since both hold the pipe
    assert code == 143
    assert complaint.count("interrupted; continue with --resume") == 1
    assert "Traceback" not in complaint


@pytest.mark.parametrize(
    ("number", "jobs", "expected"), [(signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)]
)
def test_a_sweep(tmp_path, number, jobs, expected):
    process = started(*REPRODUCE, "--jobs", jobs, "--out", tmp_path / "out")
    wait_for_epochs(tmp_path, process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal sends it: to the workers too
    else:
        process.send_signal(number)
    code, complaint = ended(process)
    assert code == expected
    assert "interrupted; the same command continues from here" in complaint
    assert "Traceback" not in complaint


def test_an_error_during_cleanup_counts_as_the_interrupt():
    """joblib raises a KeyError if Ctrl-C comes while it starts its workers."""
    interrupt = Terminated()

    def fail():
        try:
            raise interrupt
        except KeyboardInterrupt:
            {}["temporary folder"]

    with pytest.raises(KeyError) as caught:
        fail()
    assert interruption(caught.value) is interrupt
    assert interruption(InvalidValueError("no")) is None
