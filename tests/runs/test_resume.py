"""A run that was killed ends as one that was not."""

import os
import shutil
import signal
import threading
import time

import killing
import pytest
from killing import CONFIG

from noisebound.cli import main
from noisebound.runs import train_run
from noisebound.runs.keeper import CheckpointWarning, read_metrics
from processes import forked
from training_data import noisy_clouds


def without_times(folder):
    history = read_metrics(folder / "metrics.jsonl")
    return [metrics.model_copy(update={"seconds": 0.0}) for metrics in history]


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
    process = forked(killing.main, tmp_path, 20)
    process.join(300)
    assert process.exitcode == 0
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
def test_interrupted_by_ctrl_c(tmp_path, capsys):
    """The message says how to go on, and going on works."""
    metrics = tmp_path / "run" / "metrics.jsonl"
    command = ["fit", "digits", "--out", str(tmp_path / "run"), "--noise-rate", "0.4"]
    command += ["--epochs", "120", "--accelerator", "cpu", "--model", "mlp"]

    def press_ctrl_c():
        while not read_metrics(metrics):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c, daemon=True).start()
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 130
    assert len(read_metrics(metrics)) < 120
    complaint = capsys.readouterr().err
    assert "continue with --resume" in complaint
    assert "Traceback" not in complaint
    with pytest.raises(SystemExit) as ended:
        main([*command, "--resume"])
    assert not ended.value.code
    assert len(read_metrics(metrics)) == 120
