"""Two real processes, joined by gloo, against one."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from two_ranks import METHODS, main

from noisebound.runs import SavedModel, load_run
from noisebound.runs.keeper import read_metrics
from noisebound.training import TrainingConfig, UnknownNoiseWarning
from noisebound.training.data import split_validation
from processes import run_ranks
from training_data import NOISE_RATE, noisy_images


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of both: one process, which is this one, and two."""
    folders = {devices: tmp_path_factory.mktemp("ranks") / str(devices) for devices in (1, 2)}
    with pytest.warns(UnknownNoiseWarning, match="still learning"):  # of fce+b
        main(1, folders[1])
    assert run_ranks(main, 2, folders[2]) == [0, 0]
    return folders


@pytest.mark.parametrize("loss", METHODS)
def test_same_weights(runs, loss):
    one, two = (load_file(runs[devices] / loss / "model.safetensors") for devices in (1, 2))
    assert max((one[name] - two[name]).abs().max() for name in one) < 1e-6


@pytest.mark.parametrize("loss", METHODS)
def test_same_measurements(runs, loss):
    one, two = (read_metrics(runs[devices] / loss / "metrics.jsonl") for devices in (1, 2))
    for epochs in zip(one, two, strict=True):
        single, double = (
            {
                name: value
                for name, value in metrics.model_dump(exclude_none=True).items()
                if name != "seconds"
            }
            for metrics in epochs
        )
        assert double == pytest.approx(single, rel=1e-6)


def test_the_same_noise_is_estimated(runs):
    one, two = (load_run(runs[devices] / "fce+b") for devices in (1, 2))
    ours, theirs = (run.noise.estimate for run in (one, two))
    assert theirs.noise_rate == pytest.approx(ours.noise_rate)
    assert theirs.interval == pytest.approx(ours.interval)
    torch.testing.assert_close(theirs.class_prior, ours.class_prior)
    torch.testing.assert_close(theirs.transition, ours.transition)
    assert two.result.bound == pytest.approx(one.result.bound)
    assert two.result.chosen.reason == one.result.chosen.reason


@pytest.mark.parametrize("loss", ["ce+b", "sce+b"])
def test_the_bound_was_crossed(runs, loss):
    shares = [metrics.share_below for metrics in read_metrics(runs[2] / loss / "metrics.jsonl")]
    assert 0 < sum(shares) < len(shares)


@pytest.mark.parametrize(("loss", "name"), [("elr", "targets"), ("truncated", "kept")])
def test_memory_is_whole_on_every_rank(runs, loss, name):
    path = max((runs[2] / loss / "checkpoints").iterdir())  # the newest
    memory = load_file(path)[f"criterion.{name}"]
    assert len(memory) == 108
    if name == "targets":
        assert (memory.sum(1) > 0.5).all()  # every example was seen
    else:
        assert 0 < (~memory).sum() < 2 * NOISE_RATE * 108  # some were dropped


def test_averaged_batch_norm_is_the_same_on_every_rank(runs):
    """What the ranks measured together is what the saved model is."""
    folder = runs[2] / "batch-norm"
    (final,) = read_metrics(folder / "metrics.jsonl")[-1:]
    config = TrainingConfig.model_validate_json((folder / "config.json").read_text())
    validation = split_validation(noisy_images(), config)[0].validation
    said = SavedModel.load(folder).probabilities(validation.inputs)
    loss = torch.nn.functional.nll_loss(said.log(), validation.labels)
    assert final.averaged_validation_loss == pytest.approx(loss.item(), rel=1e-5)


def test_from_the_command_line(tmp_path):
    command = [
        sys.executable, "-m", "noisebound", "fit", "digits", "--out", tmp_path / "run",
        "--noise-rate", "0.4", "--epochs", "2", "--devices", "2", "--accelerator", "cpu",
        "--model", "mlp",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("after 2 epochs") == 1  # only one rank speaks


def test_one_rank_may_train_alone(runs):
    """On one device, in a process group whose other process has left."""
    assert load_run(runs[2] / "alone").result.final.epoch == 2
