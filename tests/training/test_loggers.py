"""Trackers get the metrics of each epoch."""

import sys
from types import ModuleType

import mlflow
import numpy as np
import polars as pl
import pytest
import wandb
from lightning_fabric.loggers.csv_logs import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import noisebound as nb
from noisebound.errors import InvalidTypeError, MissingExtraError
from noisebound.training.loggers import LabelLogger, TrackedRun, as_loggers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


def fit(folder, **options):
    known = {"noise_rate": 0.1, "epochs": 3, "show": False, "report": False}
    return nb.fit((X, Y), out=folder / "run", **(known | options))


def test_csv(tmp_path):
    run = fit(tmp_path, logger="csv")
    (log,) = tmp_path.glob("run/logs/*/metrics.csv")
    table = pl.read_csv(log)
    assert table["step"].to_list() == [1, 2, 3]
    assert table["train_loss"].to_list() == pytest.approx(run.history["train_loss"].to_list())


def test_tensorboard(tmp_path):
    run = fit(tmp_path, logger="tensorboard")
    (folder,) = tmp_path.glob("run/logs/*")
    events = EventAccumulator(str(folder)).Reload()
    values = [event.value for event in events.Scalars("train_loss")]
    assert values == pytest.approx(run.history["train_loss"].to_list())


def test_functions_and_lightnings_loggers(tmp_path):
    seen = []
    by_function = lambda metrics, step: seen.append((step, metrics["train_loss"]))  # noqa: E731
    run = fit(tmp_path, logger=[by_function, CSVLogger(tmp_path, name="logs")])
    assert seen == list(run.history.select("epoch", "train_loss").iter_rows())
    (log,) = tmp_path.glob("logs/*/metrics.csv")
    assert len(pl.read_csv(log)) == 3


def test_other_learners_have_one_entry(tmp_path):
    seen = []
    keep = lambda metrics, step: seen.append(metrics)  # noqa: E731
    run = nb.fit(
        (X, Y), out=tmp_path / "run", learner="linear", recipe="plain", show=False, logger=keep
    )
    (metrics,) = seen
    assert metrics["final_validation_top1"] == run.final("validation_top1")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(tmp_path / "mlruns")
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(None)


def test_mlflow(tmp_path, store):
    run = fit(tmp_path, logger="mlflow")
    (found,) = store.search_runs(["0"])
    assert found.info.run_name == "run"
    assert found.info.status == "FINISHED"
    assert found.data.params["noise_rate"] == "0.1"
    losses = [each.value for each in store.get_metric_history(found.info.run_id, "train_loss")]
    assert losses == pytest.approx(run.history["train_loss"].to_list())
    assert mlflow.active_run() is None


def test_an_active_run_stays_open(tmp_path, store):
    with mlflow.start_run() as own:
        fit(tmp_path, logger="mlflow")
        assert mlflow.active_run().info.run_id == own.info.run_id
    assert len(store.search_runs(["0"])) == 1
    assert store.get_metric_history(own.info.run_id, "train_loss")[-1].step == 3


def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    fit(tmp_path, logger="wandb")
    assert wandb.run is None
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert file.read_bytes().count(b"share_below") >= 3  # a record per epoch, and a summary


class FakeTracker(ModuleType):
    """Trackio's interface, which is that of Weights & Biases."""

    run = ModuleType("trackio.run")  # which is not an active run

    def __init__(self):
        super().__init__("trackio")
        self.calls = []

    def init(self, **about):
        self.calls.append(about)

    def log(self, metrics, step):
        self.calls.append(step)

    def finish(self):
        self.calls.append("finish")


def test_trackio(tmp_path, monkeypatch):
    tracker = FakeTracker()
    monkeypatch.setitem(sys.modules, "trackio", tracker)
    fit(tmp_path, logger="trackio")
    about, *rest = tracker.calls
    assert about["name"] == "run"
    assert about["config"]["epochs"] == 3
    assert rest == [1, 2, 3, "finish"]


def test_a_training_that_fails(tmp_path, store):
    def fail(metrics, step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, logger=["mlflow", fail])
    (found,) = store.search_runs(["0"])
    assert found.info.status == "FAILED"


def test_wrong_loggers(tmp_path, monkeypatch):
    with pytest.raises(InvalidTypeError, match="csv, tensorboard, mlflow"):
        as_loggers("cvs", tmp_path, {})
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(MissingExtraError, match=r"`logger` trackio needs trackio, .*\[trackio\]"):
        as_loggers("trackio", tmp_path, {})


class Broken:
    def log_metrics(self, metrics, step):
        raise OSError("no connection")

    def finalize(self, status):
        raise OSError("no connection")


def test_a_tracker_that_fails_does_not_end_the_training(tmp_path):
    seen = []
    keep = lambda metrics, step: seen.append(step)  # noqa: E731
    with pytest.warns(UserWarning, match="logger Broken failed in .*no connection") as caught:
        run = fit(tmp_path, logger=[Broken(), keep])
    assert seen == [1, 2, 3]
    assert any("finalize" in str(each.message) for each in caught)
    assert run.predict_proba(X).shape == (60, 2)


def test_mlflow_takes_any_label(tmp_path, store):
    tracker = TrackedRun("mlflow", "run", {})
    for label in ("R&B", "drama, comedy", "/a"):
        LabelLogger(tracker, label, 0).log_metrics({"loss": 1.0}, 1)
    tracker.finalize("success")
    (found,) = store.search_runs(["0"])
    assert set(found.data.metrics) == {"R_B/loss", "drama_ comedy/loss", "a/loss"}
