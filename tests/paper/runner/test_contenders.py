"""Rows beyond the paper: told the truth, pruned, and judged by what they find out."""

import pytest
import torch

from noisebound.data import load
from noisebound.paper.protocol.columns import BEYOND
from noisebound.paper.protocol.contenders import (
    BACKWARD,
    GRANULARITIES,
    PEERS,
    check_contenders,
)
from noisebound.paper.protocol.plan import Plan
from noisebound.paper.protocol.presets import CPU
from noisebound.paper.protocol.sources import DataSources, noisy_splits
from noisebound.paper.runner.label_findings import read_findings
from noisebound.paper.runner.run import Execution, execute
from noisebound.paper.runner.run_store import RunStore
from noisebound.paper.runner.told import told
from noisebound.training import TrainingConfig
from paper_runs import COLUMN

QUICK = (
    "epochs=20",
    "train_examples=600",
    "batch_size=60",
    "learning_rate=0.003",
    "measure_every=20",
)
PLAN = Plan(CPU.override(QUICK), (0,), DataSources())
CONTENDERS = PEERS | GRANULARITIES | BACKWARD


def done(name, tmp_path):
    (run,) = PLAN.contender_runs(COLUMN, CONTENDERS[name])
    store = RunStore(tmp_path / "runs")
    execute(run, Execution(store, DataSources(), threads=1))
    assert store.error(run) is None, store.error(run)
    return run, store


class TestTold:
    (run,) = PLAN.contender_runs(COLUMN, CONTENDERS["fce+auto"])
    train = noisy_splits(run, DataSources()).train

    def test_the_rate_that_came_about(self):
        rate = told(TrainingConfig(), "true rate", self.train).noise_rate
        assert rate == (self.train.labels != self.train.true_labels).double().mean()

    def test_the_matrix_that_came_about(self):
        matrix = torch.tensor(told(TrainingConfig(), "true transition", self.train).transition)
        torch.testing.assert_close(matrix.sum(0), torch.ones(10))
        first = self.train.labels[self.train.true_labels == 0]
        assert matrix[0, 0] == pytest.approx((first == 0).double().mean().item())

    def test_clean_labels(self):
        clean = load("digits").train
        assert told(TrainingConfig(), "true rate", clean).noise_rate == 0
        matrix = torch.tensor(told(TrainingConfig(), "true transition", clean).transition)
        assert torch.equal(matrix, torch.eye(10))

    def test_nothing(self):
        assert told(TrainingConfig(), "nothing", self.train) == TrainingConfig()


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    return done("fce+auto", tmp_path_factory.mktemp("estimated"))


def test_an_estimate_is_held_against_the_truth(estimated):
    run, store = estimated
    found = read_findings(store.folder(run))
    assert found["noise_rate"] == pytest.approx(0.4, abs=0.05)
    assert set(found["estimates"]) == {"agreement", "anchor", "dual-t", "confident", "neighbors"}
    assert found["estimates"]["agreement"] == store.result(run).noise.estimate.noise_rate
    assert 0.6 < found["suspects_auroc"] <= 1
    assert 0 <= found["calibration_error"] < 0.3
    assert found["epochs"] == 20 + 7


def test_a_run_without_its_findings_is_not_finished(estimated):
    run, store = estimated
    store.folder(run).label_findings.unlink()
    assert store.state(run) == "waiting"
    before = store.folder(run).result.stat().st_mtime_ns
    execute(run, Execution(store, DataSources(), threads=1))
    assert store.state(run) == "finished"
    assert store.folder(run).result.stat().st_mtime_ns == before  # it was not trained again


def test_pruning_by_cleanlab(tmp_path):
    run, store = done("prune", tmp_path)
    found = read_findings(store.folder(run))
    assert found["epochs"] == pytest.approx(20 * 5 * 4 / 5)
    assert found["suspects_auroc"] > 0.6
    assert set(found["estimates"]) == {"five folds"}
    assert not store.folder(run).folds.exists()
    assert store.result(run).final.train_loss > 0


@pytest.mark.parametrize("name", ["ce+rate", "fce+matrix", "backward+auto", "fce:class"])
def test_others(tmp_path, name):
    run, store = done(name, tmp_path)
    assert read_findings(store.folder(run)) is None
    origins = {
        "ce+rate": "given noise rate",
        "fce+matrix": "given transition",
        "backward+auto": "estimated transition",
        "fce:class": "estimated transition",
    }
    assert store.result(run).chosen.origin in (origins[name], "measured floor")


def test_early_stopping_is_the_plain_run():
    assert PLAN.contender_runs(COLUMN, CONTENDERS["early"]) == PLAN.contender_runs(
        COLUMN, CONTENDERS["plain"]
    )
    (run,) = PLAN.contender_runs(COLUMN, CONTENDERS["early"])
    assert run.training.measure_every == 1  # else there is little to choose from


def test_every_contender_is_another_run():
    keys = {name: PLAN.contender_runs(COLUMN, CONTENDERS[name])[0].key for name in CONTENDERS}
    same = [{"early", "plain"}, {"fce+auto", "fce:batch"}]
    for names in same:
        assert len({keys[name] for name in names}) == 1
    assert len(set(keys.values())) == len(keys) - len(same)


def test_classifier_noise_is_bounded_by_two_classes_where_the_rate_is_told():
    """A label is the true one or the classifier's: so the paper bounds it."""
    column = next(column for column in BEYOND if column.name == "mnist-classifier-0.6")
    (told_rate,), (ours,) = (
        PLAN.contender_runs(column, PEERS[name]) for name in ("ce+rate", "fce+auto")
    )
    assert told_rate.training.bound_classes == 2
    assert ours.training.bound_classes is None


def test_sixteen_settings():
    assert len(BEYOND) == 16
    assert sum(column.noise is None and column.noise_rate == 0 for column in BEYOND) == 2


def test_unknown():
    with pytest.raises(ValueError, match=r"unknown method 'magic': choose from auto, fce\+auto"):
        check_contenders(["magic"], PEERS)
