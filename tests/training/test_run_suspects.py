"""Wrong labels from one training: found, ranked, named, shown."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from noisebound.data import DataError, Dataset, Splits, load
from noisebound.training import TrainingConfig, fit
from noisebound.training.run_folder import RunFolder
from noisebound.training.suspects import suspects_of_run
from noisebound.training.suspects_table import suspects_sheet, suspects_table
from training_data import noisy_clouds


@pytest.fixture(scope="module")
def digits():
    splits = load("digits")
    generator = torch.Generator().manual_seed(0)
    noisy = nb.corrupt(splits.train.labels, "pairwise", 0.3, 10, generator=generator)
    return Splits("noisy", splits.train.with_labels(noisy.labels), splits.test, source="made")


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suspects") / "run"
    fit(digits, TrainingConfig(model="small_mlp", epochs=40, batch_size=100), folder)
    return RunFolder(folder)


def test_wrong_labels_come_first(run, digits):
    found = suspects_of_run(run, digits.train)
    is_wrong = digits.train.labels != digits.train.true_labels
    assert roc_auc_score(is_wrong, found.score) > 0.95
    assert found.probability.mean() == pytest.approx(0.3, abs=0.06)
    worst = found.ranking[:100]
    right = found.suggested[worst] == digits.train.true_labels[worst]
    assert right.double().mean() > 0.9


@pytest.mark.parametrize("changes", [{"loss": "ce+b", "noise_rate": 0.3}, {"loss": "ce+b"}])
def test_of_runs_that_were_told_the_rate_or_corrected_nothing(digits, tmp_path, changes):
    config = TrainingConfig(model="small_mlp", epochs=15, batch_size=100, **changes)
    fit(digits, config, tmp_path / "run")
    found = suspects_of_run(RunFolder(tmp_path / "run"), digits.train)
    is_wrong = digits.train.labels != digits.train.true_labels
    assert roc_auc_score(is_wrong, found.score) > 0.8


@pytest.mark.parametrize("loss", ["gce+b", "sce+b"])
def test_what_a_loss_teaches_is_seen_through_its_noise_model(digits, tmp_path, loss):
    config = TrainingConfig(model="small_mlp", epochs=30, batch_size=100, loss=loss)
    fit(digits, config, tmp_path / "run")
    found = suspects_of_run(RunFolder(tmp_path / "run"), digits.train)
    assert found.probability.mean() == pytest.approx(0.3, abs=0.1)


def test_labels_may_be_corrected_and_asked_about_again(run, digits):
    before = suspects_of_run(run, digits.train)
    corrected = digits.train.labels.clone()
    worst = before.ranking[:150]
    corrected[worst] = digits.train.true_labels[worst]
    train = Dataset(
        digits.train.inputs, corrected, digits.train.class_names, digits.train.true_labels
    )
    after = suspects_of_run(run, train)
    assert roc_auc_score(train.labels != train.true_labels, after.score) > 0.95
    assert (after.probability[worst] < 0.5).double().mean() > 0.9


def test_other_data_is_refused(run, digits):
    order = torch.arange(len(digits.train)).flip(0)
    with pytest.raises(DataError, match="in another order"):
        suspects_of_run(run, digits.train.subset(order))
    with pytest.raises(DataError, match="other classes"):
        suspects_of_run(run, noisy_clouds().train)
    with pytest.raises(DataError, match="holds no run"):
        suspects_of_run(RunFolder(run.path / "nowhere"), digits.train)


def test_a_network_of_ones_own(tmp_path):
    def network():
        return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    splits = noisy_clouds()
    fit(splits, TrainingConfig(epochs=4, batch_size=30), tmp_path / "run", model=network())
    found = suspects_of_run(RunFolder(tmp_path / "run"), splits.train, network())
    assert len(found.score) == len(splits.train)


def test_the_table_and_the_sheet(run, digits):
    found = suspects_of_run(run, digits.train)
    table = suspects_table(found, digits)
    assert table.columns == [
        "example", "label", "probability_wrong", "score", "suggested", "true_label",
    ]  # fmt: skip
    assert len(table) == len(digits.train)
    assert table["probability_wrong"].is_sorted(descending=True)
    first = table.row(0, named=True)
    assert first["label"] == digits.train.class_names[digits.train.labels[first["example"]]]
    sheet = suspects_sheet(found, digits.train, most=10)
    shown = [axes for axes in sheet.axes if axes.images]
    assert len(shown) == 10
    assert shown[0].get_title().startswith(f"{first['label']}\n→ {first['suggested']} ")


def test_examples_are_named_where_they_have_names(run, digits):
    names = tuple(f"image {place}.png" for place in range(len(digits.train)))
    named = Splits("named", digits.train, None, source="made", train_names=names)
    found = suspects_of_run(run, digits.train)
    assert suspects_table(found, named)["example"][0] == names[found.ranking[0]]


def test_an_unfinished_run(run, digits, tmp_path):
    (tmp_path / "config.json").write_text(run.config.read_text())
    with pytest.raises(ValueError, match="holds no finished run"):
        suspects_of_run(RunFolder(tmp_path), digits.train)
    (tmp_path / "config.json").write_text("{}}")
    with pytest.raises(ValueError, match="is damaged"):
        suspects_of_run(RunFolder(tmp_path), digits.train)
