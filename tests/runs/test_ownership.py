"""One process owns a run; the others say who it is."""

import os
import signal
import socket
import time
from contextlib import contextmanager

import pytest

from noisebound.cli import main
from noisebound.errors import FolderTakenError
from noisebound.runs import train_run
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import read_metrics
from noisebound.training import TrainingConfig
from processes import forked, run_ranks
from training_data import NOISE_RATE, noisy_clouds

LONG = TrainingConfig(loss="ce", noise_rate=NOISE_RATE, epochs=100_000, batch_size=30)


def train_for_long(folder: str) -> None:
    """For a process of its own."""
    train_run(noisy_clouds(), LONG, folder, resume=True, checkpoint_seconds=0)


@contextmanager
def training(folder):
    """Have a process train in a folder within the context."""
    process = forked(train_for_long, folder)
    try:
        deadline = time.monotonic() + 120
        while not (folder / "checkpoints").exists():
            assert process.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return RunFolder(tmp_path_factory.mktemp("owned") / "run")


@pytest.fixture(scope="module")
def owner(folder):
    """A process that trains in ``folder``, to be left alive."""
    with training(folder.path) as process:
        yield process


def test_the_other_says_who_has_it(folder, owner):
    since = folder.owner.read_text().partition("since ")[2]
    message = rf"process {owner.pid} on {socket.gethostname()}, since {since[:10]} .* `out`"
    for resume in (True, False):
        with pytest.raises(FolderTakenError, match=message):
            train_run(noisy_clouds(), LONG, folder.path, resume=resume)
    os.kill(owner.pid, signal.SIGSTOP)  # so that the file is not in the middle of a line
    epochs = [metrics.epoch for metrics in read_metrics(folder.metrics)]
    assert epochs == list(range(1, len(epochs) + 1))


def test_the_lock_dies_with_its_process(tmp_path):
    with training(tmp_path / "run") as owner:
        owner.kill()
        owner.join()
    for place in (".", "checkpoints", "cross-fit"):
        (tmp_path / "run" / place).mkdir(exist_ok=True)
        (tmp_path / "run" / place / ".half.part").touch()
    folder = RunFolder(tmp_path / "run")
    done = len(read_metrics(folder.metrics))
    with pytest.raises(ValueError, match="another config"):  # and not who has it
        train_run(noisy_clouds(), LONG.model_copy(update={"epochs": 1}), folder.path, resume=True)
    assert not folder.owner.exists()
    assert not list(folder.path.rglob(".*.part"))
    assert len(read_metrics(folder.metrics)) == done


def test_several_ranks_are_told_once(folder, owner, tmp_path):
    command = ["fit", "digits", "--out", str(folder.path), "--noise-rate", "0.4"]
    command += ["--devices", "2", "--accelerator", "cpu"]
    folder.config.unlink()  # what `fit` looks at before the lock
    assert run_ranks(main, command, errors=tmp_path / "errors") == [2, 2]
    complaint = (tmp_path / "errors").read_text()
    assert complaint.count(f"is in use: process {owner.pid} on ") == 1
    assert "Traceback" not in complaint
