"""A run that was killed ends as one that was not."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from killing import CONFIG

from noisebound.cli import main
from noisebound.runs import train_run
from noisebound.runs.keeper import CheckpointWarning, read_metrics
from processes import environment
from training_data import noisy_clouds

SCRIPT = Path(__file__).parent / "killing.py"


def without_times(folder):
    return [replace(metrics, seconds=0.0) for metrics in read_metrics(folder / "metrics.jsonl")]


def is_same_run(one, other):
    files = ("model.safetensors", "model.json", "config.json")
    return without_times(one) == without_times(other) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in files
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train_run(noisy_clouds(), CONFIG, folder, checkpoint_seconds=0)
    return folder


def test_killed_twenty_times(tmp_path, undisturbed):
    single = environment() | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, SCRIPT, tmp_path, "20"]
    result = subprocess.run(command, capture_output=True, text=True, env=single, timeout=300)
    assert result.returncode == 0, result.stderr
    folders = [path for path in tmp_path.iterdir() if path.name.isdigit()]
    assert folders
    assert all(is_same_run(folder, undisturbed) for folder in folders)


def test_damaged_checkpoint(tmp_path, undisturbed):
    """The one before it is used, and leads to the same end."""
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    for name in ("result.json", "model.json", "model.safetensors"):
        (folder / name).unlink()
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(CheckpointWarning, match=f"{newest} is damaged"):
        train_run(noisy_clouds(), CONFIG, folder, resume=True)
    assert is_same_run(folder, undisturbed)


@pytest.mark.usefixtures("heeds_interrupts")
def test_interrupted_by_ctrl_c(tmp_path):
    """The message says how to go on, and going on works."""
    command = [
        sys.executable, "-m", "noisebound", "fit", "digits", "--out", tmp_path / "run",
        "--noise-rate", "0.4", "--epochs", "120", "--accelerator", "cpu", "--model", "mlp",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not read_metrics(tmp_path / "run" / "metrics.jsonl"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with --resume" in complaint
    assert "Traceback" not in complaint
    with pytest.raises(SystemExit) as ended:
        main([*map(str, command[3:]), "--resume"])
    assert not ended.value.code
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 120
