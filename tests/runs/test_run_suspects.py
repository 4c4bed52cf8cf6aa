"""Wrong labels from one training: found, ranked, named, shown."""

import shutil
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError, RunError
from noisebound.pages.suspects import suspects_page
from noisebound.runs import SavedModel, load_run, train_run
from noisebound.runs.judgment import suspects_frame
from noisebound.training import TrainingConfig
from training_data import NOISE_RATE, mistaken_digits, noisy_clouds


@pytest.fixture(scope="module")
def digits():
    return mistaken_digits()


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suspects") / "run"
    return train_run(
        digits, TrainingConfig(loss="fce+b", model="small_mlp", epochs=40, batch_size=100), folder
    )


def test_wrong_labels_come_first(run, digits):
    found = run.find_suspects(digits)
    is_wrong = digits.train.labels != digits.train.true_labels
    assert roc_auc_score(is_wrong, found.score) > 0.95
    assert found.probability.mean() == pytest.approx(0.3, abs=0.06)
    worst = found.ranking[:100]
    right = found.suggested[worst] == digits.train.true_labels[worst]
    assert right.double().mean() > 0.9


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
@pytest.mark.parametrize("changes", [{"loss": "ce+b", "noise_rate": 0.3}, {"loss": "ce+b"}])
def test_of_runs_that_were_told_the_rate_or_corrected_nothing(digits, tmp_path, changes):
    config = TrainingConfig(model="small_mlp", epochs=15, batch_size=100, **changes)
    found = train_run(digits, config, tmp_path / "run").find_suspects(digits)
    is_wrong = digits.train.labels != digits.train.true_labels
    assert roc_auc_score(is_wrong, found.score) > 0.8


@pytest.mark.parametrize("loss", ["gce+b", "sce+b"])
def test_what_a_loss_teaches_is_seen_through_its_noise_model(digits, tmp_path, loss):
    config = TrainingConfig(model="small_mlp", epochs=30, batch_size=100, loss=loss)
    found = train_run(digits, config, tmp_path / "run").find_suspects(digits)
    assert found.probability.mean() == pytest.approx(0.3, abs=0.1)


def test_labels_may_be_corrected_and_asked_about_again(run, digits):
    before = run.find_suspects(digits)
    corrected = digits.train.labels.clone()
    worst = before.ranking[:150]
    corrected[worst] = digits.train.true_labels[worst]
    train = Dataset(
        digits.train.inputs, corrected, digits.train.class_names, digits.train.true_labels
    )
    after = run.find_suspects(replace(digits, train=train))
    assert roc_auc_score(train.labels != train.true_labels, after.score) > 0.95
    assert (after.probability[worst] < 0.5).double().mean() > 0.9


def test_other_data_is_refused(run, digits):
    order = torch.arange(len(digits.train)).flip(0)
    with pytest.raises(DataError, match="in another order"):
        run.find_suspects(replace(digits, train=digits.train.subset(order)))
    with pytest.raises(DataError, match="other classes"):
        run.find_suspects(noisy_clouds())
    with pytest.raises(RunError, match="holds no run"):
        load_run(run.path / "nowhere")


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_a_network_of_the_users_own(tmp_path):
    def network():
        return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

    splits = noisy_clouds()
    train_run(
        splits,
        TrainingConfig(loss="fce+b", epochs=4, batch_size=30),
        tmp_path / "run",
        model=network(),
    )
    found = load_run(tmp_path / "run", network()).find_suspects(splits)
    assert len(found.score) == len(splits.train)


def test_the_table_and_the_page(run, digits):
    found = run.find_suspects(digits)
    table = suspects_frame(found, digits)
    assert table.columns == [
        "example", "label", "probability_wrong", "score", "suggested", "true_label",
    ]  # fmt: skip
    assert len(table) == len(digits.train)
    assert table["probability_wrong"].is_sorted(descending=True)
    first = table.row(0, named=True)
    assert first["label"] == digits.train.class_names[digits.train.labels[first["example"]]]
    (section,) = suspects_page(found, digits, 10, "Some are wrong.").sections
    assert len(section.gallery) == 10
    assert section.gallery[0].lines[:3] == [
        f"#{first['example']}",
        f"label: {first['label']}",
        f"likelier: {first['suggested']}",
    ]


def test_examples_are_named_where_they_have_names(run, digits):
    names = tuple(f"image {place}.png" for place in range(len(digits.train)))
    named = Splits("named", digits.train, None, source="made", train_names=names)
    found = run.find_suspects(digits)
    assert suspects_frame(found, named)["example"][0] == names[found.ranking[0]]


def test_an_unfinished_run(run, digits, tmp_path):
    (tmp_path / "config.json").write_text(run.folder.config.read_text())
    with pytest.raises(ValueError, match="holds no finished run"):
        load_run(tmp_path).find_suspects(digits)
    (tmp_path / "config.json").write_text("{}}")
    with pytest.raises(ValueError, match="is damaged"):
        load_run(tmp_path)


def test_the_training_data_is_inferred_once(tmp_path, monkeypatch):
    """Another process finds the judgment in the folder; a damaged or outdated one is made again."""
    splits, folder = noisy_clouds(), tmp_path / "run"
    config = TrainingConfig(loss="ce", noise_rate=NOISE_RATE, epochs=1, model="linear")
    train_run(splits, config, folder, show=False)
    inferred = []
    probabilities = SavedModel.probabilities
    monkeypatch.setattr(
        SavedModel,
        "probabilities",
        lambda self, inputs: inferred.append(len(inputs)) or probabilities(self, inputs),
    )
    first = load_run(folder).judgment(splits)
    again = load_run(folder).judgment(splits)
    assert len(inferred) == 1
    assert torch.equal(first.probabilities, again.probabilities)
    assert torch.equal(first.suspects.score, again.suspects.score)
    assert torch.equal(first.suspects.suggested, again.suspects.suggested)

    labels = splits.train.labels.roll(1)
    corrected = replace(splits, train=replace(splits.train, labels=labels))
    load_run(folder).judgment(corrected)
    assert len(inferred) == 2
    kept = load_run(folder).folder.judgment
    kept.write_bytes(kept.read_bytes()[:-1])
    assert torch.equal(load_run(folder).judgment(splits).probabilities, first.probabilities)
    assert len(inferred) == 3
    shutil.rmtree(folder / "checkpoints")
    other = tmp_path / "other"
    train_run(splits, config.model_copy(update={"seed": 1}), other, show=False)
    for name in ("model.json", "model.safetensors"):
        shutil.copy(other / name, folder / name)
    assert not torch.equal(load_run(folder).judgment(splits).probabilities, first.probabilities)
