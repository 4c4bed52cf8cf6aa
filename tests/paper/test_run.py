"""One run: its data, its folder, its failures."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from noisebound.data import load
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import (
    DataSources,
    Plan,
    RunConfig,
    RunStore,
    execute,
    noisy_splits,
)
from paper_runs import QUICK, digit_runs, measured


def test_noise_and_examples_follow_from_the_seed():
    one, same, other = (
        noisy_splits(digit_runs(["ce"], seeds=[seed])[0], DataSources()) for seed in (0, 0, 1)
    )
    assert torch.equal(one.train.labels, same.train.labels)
    assert torch.equal(one.train.dense_inputs, same.train.dense_inputs)
    assert not torch.equal(one.train.dense_inputs, other.train.dense_inputs)
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
    """A linear classifier memorizes 100 images of digits, and would add no noise to them."""
    column = COLUMNS["digits-0.4"].model_copy(update={"noise": "classifier", "noise_rate": 1.0})
    plan = Plan(CPU.override(["digits.train_examples=100"]), (0,), DataSources())
    (run,) = plan.runs(column, "ce")
    whole = noisy_splits(run.model_copy(update={"train_examples": None}), DataSources()).train
    part = noisy_splits(run, DataSources()).train
    rows = {
        image.numpy().tobytes(): label
        for image, label in zip(whole.dense_inputs, whole.labels, strict=True)
    }
    for image, label in zip(part.dense_inputs, part.labels, strict=True):
        assert rows[image.numpy().tobytes()] == label


def test_a_replaced_data_set(tmp_path):
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

    def test_the_files_of_a_finished_run(self, store):
        (run,) = digit_runs(["ce+b"])
        execute(run, store, DataSources())
        folder = store.folder(run)
        assert folder.path.name == run.key
        assert json.loads(folder.experiment.read_text())["training"]["loss"] == "ce+b"
        assert json.loads(folder.environment.read_text())["torch"] == torch.__version__
        assert store.state(run) == "finished"
        assert store.result(run).final.epoch == 2
        assert not folder.checkpoints.exists()

    def test_the_numbers_that_it_computes_with(self, store):
        losses = {}
        for precision in ("64-true", "32-true", "bf16-mixed"):
            (run,) = digit_runs(["ce"], settings=(*QUICK, f"precision={precision}"))
            execute(run, store, DataSources())
            losses[precision] = store.result(run).final.train_loss
        assert losses["32-true"] == pytest.approx(losses["64-true"], rel=1e-6)
        assert losses["bf16-mixed"] != pytest.approx(losses["64-true"], rel=1e-6)
        assert losses["bf16-mixed"] == pytest.approx(losses["64-true"], rel=1e-2)

    def test_it_is_not_repeated(self, store):
        (run,) = digit_runs(["ce"])
        execute(run, store, DataSources())
        before = store.folder(run).result.stat().st_mtime_ns
        execute(run, store, DataSources(Path("nowhere")))
        assert store.folder(run).result.stat().st_mtime_ns == before

    @pytest.mark.parametrize("content", ["", "{}", "[]", '{"identity": "x"}'])
    def test_a_damaged_result_is_none(self, store, content):
        (run,) = digit_runs(["ce"])
        execute(run, store, DataSources())
        before = measured(store, run)
        store.folder(run).result.write_text(content)
        assert store.state(run) == "waiting"
        execute(run, store, DataSources())
        assert store.state(run) == "finished"
        assert measured(store, run) == before

    def test_a_config_that_was_lost_is_written_again(self, store):
        (run,) = digit_runs(["ce"])
        execute(run, store, DataSources())
        store.folder(run).experiment.unlink()
        execute(run, store, DataSources())
        assert RunConfig.model_validate_json(store.folder(run).experiment.read_text()) == run

    def test_a_failure_is_recorded_and_tried_again(self, store, tmp_path):
        path = tmp_path / "later.npz"
        sources = DataSources(paths={"digits": path})
        (run,) = digit_runs(["ce"], sources=sources)
        execute(run, store, sources)
        assert store.state(run) == "failed"
        assert "later.npz" in store.error(run)
        failure = json.loads(store.folder(run).failure.read_text())
        assert "Traceback" in failure["traceback"]
        train = load("digits").train
        np.savez(path, X=train.inputs.numpy(), y=train.labels.numpy())
        execute(run, store, sources)
        assert store.state(run) == "finished"
        assert store.error(run) is None

    def test_training_that_diverges_has_failed(self, store):
        (run,) = digit_runs(["ce"], settings=["learning_rate=1e30", "epochs=5"])
        execute(run, store, DataSources())
        assert "training has diverged" in store.error(run)
        assert store.result(run) is None
