"""One run: its data, its folder, its failures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiment_runs import digit_runs
from noisebound.data import load
from noisebound.experiments.columns import COLUMNS
from noisebound.experiments.plan import Plan
from noisebound.experiments.presets import CPU
from noisebound.experiments.run import DataSources, RunStore, execute, noisy_splits


def test_noise_and_examples_follow_from_the_seed():
    one, same, other = (
        noisy_splits(digit_runs(["ce"], seeds=[seed])[0], DataSources()) for seed in (0, 0, 1)
    )
    assert torch.equal(one.train.labels, same.train.labels)
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert not torch.equal(one.train.inputs, other.train.inputs)
    assert len(one.train) == 200
    assert torch.equal(one.test.labels, load("digits").test.labels)


def test_methods_of_a_seed_share_their_data():
    splits = [noisy_splits(run, DataSources()) for run in digit_runs(["ce", "sce+b"])]
    assert torch.equal(splits[0].train.labels, splits[1].train.labels)


def test_the_noise_is_that_of_the_column():
    (run,) = digit_runs(["ce"], settings=["epochs=1"])
    train = noisy_splits(run, DataSources()).train
    is_wrong = train.labels != train.true_labels
    assert len(train) == 1257
    assert is_wrong.double().mean().item() == pytest.approx(0.4, abs=0.05)


def test_classifier_noise_is_that_of_the_whole_training_set():
    """A linear classifier knows 100 images of digits by heart, and would make no noise in them."""
    column = COLUMNS["digits-0.4"].model_copy(update={"noise": "classifier", "noise_rate": 1.0})
    run = Plan(CPU.override(["train_examples=100"]), (0,), DataSources())._run(column, "ce", 0)
    whole = noisy_splits(run.model_copy(update={"train_examples": None}), DataSources()).train
    part = noisy_splits(run, DataSources()).train
    rows = {
        image.numpy().tobytes(): label
        for image, label in zip(whole.inputs, whole.labels, strict=True)
    }
    for image, label in zip(part.inputs, part.labels, strict=True):
        assert rows[image.numpy().tobytes()] == label


def test_a_data_set_from_elsewhere(tmp_path):
    train = load("digits").train
    path = tmp_path / "mine.npz"
    np.savez(
        path,
        X=train.inputs.numpy(),
        y=train.labels.numpy(),
        X_test=train.inputs.numpy()[:50],
        y_test=train.labels.numpy()[:50],
    )
    sources = DataSources(paths={"digits": path})
    (run,) = digit_runs(["ce"], sources=sources)
    assert run.source == "mine.npz"
    assert len(noisy_splits(run, sources).test) == 50


class TestExecute:
    @pytest.fixture
    def store(self, tmp_path):
        return RunStore(tmp_path / "runs")

    def test_what_a_finished_run_leaves(self, store):
        (run,) = digit_runs(["ce+b"])
        execute(run, store, DataSources(), None)
        folder = store.folder(run)
        assert folder.name == run.key
        assert json.loads((folder / "run.json").read_text())["training"]["loss"] == "ce+b"
        assert store.state(run) == "finished"
        assert store.result(run).final["epoch"] == 2
        assert not (folder / "checkpoints").exists()

    def test_it_is_not_repeated(self, store):
        (run,) = digit_runs(["ce"])
        execute(run, store, DataSources(), None)
        before = (store.folder(run) / "result.json").stat().st_mtime_ns
        execute(run, store, DataSources(Path("nowhere")), None)
        assert (store.folder(run) / "result.json").stat().st_mtime_ns == before

    def test_a_failure_is_recorded_and_tried_again(self, store, tmp_path):
        missing = DataSources(paths={"digits": tmp_path / "later.npz"})
        (run,) = digit_runs(["ce"], sources=missing)
        execute(run, store, missing, None)
        assert store.state(run) == "failed"
        assert "later.npz" in store.error(run)
        failure = json.loads((store.folder(run) / "failure.json").read_text())
        assert "Traceback" in failure["traceback"]
        execute(replace_source(run), store, DataSources(), None)
        assert store.state(replace_source(run)) == "finished"

    def test_training_that_diverges_has_failed(self, store):
        (run,) = digit_runs(["ce"], settings=["learning_rate=1e30", "epochs=5"])
        execute(run, store, DataSources(), None)
        assert "training has diverged" in store.error(run)
        assert store.result(run) is None


def replace_source(run):
    return run.model_copy(update={"source": None})
