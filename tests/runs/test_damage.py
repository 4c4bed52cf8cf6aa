"""A flipped bit, a torn file or a full disk is noticed, and what is damaged is never believed."""

import random
import resource
import shutil
import sys

import pytest
import torch
from killing import CONFIG
from test_resume import is_same_run

from noisebound.errors import DataError, RunError
from noisebound.runs import SavedModel, load_run, train_run
from noisebound.runs.keeper import CheckpointWarning, read_metrics
from noisebound.system.files import load_tensors
from noisebound.training import TrainingConfig
from processes import forked
from training_data import noisy_clouds

ESTIMATING = TrainingConfig(loss="fce+b", epochs=40, batch_size=30, learning_rate=1e-2)
SHORT = CONFIG.model_copy(update={"epochs": 4})


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    """A run with every file that there is: it has estimated its noise."""
    folder = tmp_path_factory.mktemp("estimated") / "run"
    train_run(noisy_clouds(n=600), ESTIMATING, folder, checkpoint_seconds=0)
    return folder


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A run of four epochs, with checkpoints of the last two."""
    folder = tmp_path_factory.mktemp("short") / "run"
    train_run(noisy_clouds(), SHORT, folder, checkpoint_seconds=0)
    return folder


def unfinished(short, folder):
    """A copy of the short run as it was before its end."""
    shutil.copytree(short, folder)
    for name in ("result.json", "model.json", "model.safetensors"):
        (folder / name).unlink()
    return folder


def flip(path, generator):
    """Flip one bit at random; return the content as it was."""
    before = path.read_bytes()
    content = bytearray(before)
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)
    return before


def test_no_flipped_bit_of_a_tensor_is_believed(estimated):
    """In the files of every kind, also in their headers."""
    paths = sorted(estimated.rglob("*.safetensors"))
    assert {path.parent.name for path in paths} == {"run", "cross-fit", "checkpoints"}
    generator = random.Random(0)
    for path in paths:
        tensors, about = load_tensors(path)
        for _ in range(60):
            before = flip(path, generator)
            try:
                found, header = load_tensors(path)
            except DataError:
                continue
            finally:
                path.write_bytes(before)
            # Only what carries no meaning has changed, such as the padding of the header.
            assert header == about
            assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_no_flipped_bit_changes_a_prediction(estimated, tmp_path):
    shutil.copytree(estimated, tmp_path / "run")
    inputs = noisy_clouds().test.inputs
    expected = SavedModel.load(tmp_path / "run").probabilities(inputs)
    generator = random.Random(0)
    for name in ("model.json", "model.safetensors"):
        for _ in range(60):
            before = flip(tmp_path / "run" / name, generator)
            try:
                found = SavedModel.load(tmp_path / "run").probabilities(inputs)
                assert torch.equal(found, expected)
            except (DataError, RunError):
                pass
            (tmp_path / "run" / name).write_bytes(before)


def test_suspects_do_not_rest_on_damaged_predictions(estimated, tmp_path):
    shutil.copytree(estimated, tmp_path / "run")
    flip(tmp_path / "run" / "cross-fit" / "all.safetensors", random.Random(0))
    with pytest.raises(DataError, match=r"all\.safetensors is damaged"):
        load_run(tmp_path / "run").judgment(noisy_clouds(n=600))


@pytest.mark.parametrize("kept", [0, 1, 30, -1])
@pytest.mark.parametrize("lost_checkpoint", [False, True])
def test_metrics_that_are_damaged_come_back_from_the_checkpoint(
    tmp_path, short, kept, lost_checkpoint
):
    folder = unfinished(short, tmp_path / "run")
    metrics = folder / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:kept] + b"\xff damaged \n")
    if lost_checkpoint:  # the run goes back to the one before, and ends as if nothing had been
        flip(folder / "checkpoints" / "epoch-000004.safetensors", random.Random(0))
        with pytest.warns(CheckpointWarning, match=r"epoch-000004\.safetensors is damaged"):
            train_run(noisy_clouds(), SHORT, folder, resume=True)
    else:
        train_run(noisy_clouds(), SHORT, folder, resume=True)
    assert is_same_run(folder, short)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"", b'{"epochs": "many"}'])
def test_a_damaged_config_is_named(tmp_path, short, content):
    folder = unfinished(short, tmp_path / "run")
    (folder / "config.json").write_bytes(content)
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        train_run(noisy_clouds(), SHORT, folder, resume=True)


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[1]", b'{"epoch": "one"}', b"null"])
def test_damaged_metrics_are_named(tmp_path, short, line):
    shutil.copytree(short, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_bytes(line + b"\n" + metrics.read_bytes())
    with pytest.raises(DataError, match=r"metrics\.jsonl is damaged in line 1"):
        read_metrics(metrics)


def train_with_little_room(folder: str) -> None:
    """In a process of its own: no file may exceed 4,000 bytes, which every checkpoint does."""
    sys.dont_write_bytecode = True  # Python 3.11 keeps bytecode that was cut short
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, resource.RLIM_INFINITY))
    with pytest.raises(OSError, match=r"File too large: .*epoch-000001"):
        train_run(noisy_clouds(), SHORT, folder, checkpoint_seconds=0)


def test_a_full_disk(tmp_path, short):
    """The run goes on once there is room."""
    process = forked(train_with_little_room, tmp_path / "run")
    process.join(300)
    assert process.exitcode == 0
    assert not list(tmp_path.rglob(".*.part"))
    train_run(noisy_clouds(), SHORT, tmp_path / "run", resume=True)
    assert is_same_run(tmp_path / "run", short)
