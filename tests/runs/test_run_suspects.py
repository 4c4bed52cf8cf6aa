"""Wrong labels from one training: found, ranked, named, shown."""

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
    found = run.judgment(digits).suspects
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
    found = train_run(digits, config, tmp_path / "run").judgment(digits).suspects
    is_wrong = digits.train.labels != digits.train.true_labels
    assert roc_auc_score(is_wrong, found.score) > 0.8


@pytest.mark.parametrize("loss", ["gce+b", "sce+b"])
def test_what_a_loss_teaches_is_seen_through_its_noise_model(digits, tmp_path, loss):
    config = TrainingConfig(model="small_mlp", epochs=30, batch_size=100, loss=loss)
    found = train_run(digits, config, tmp_path / "run").judgment(digits).suspects
    assert found.probability.mean() == pytest.approx(0.3, abs=0.1)


def test_labels_may_be_corrected_and_asked_about_again(run, digits):
    before = run.judgment(digits).suspects
    corrected = digits.train.labels.clone()
    worst = before.ranking[:150]
    corrected[worst] = digits.train.true_labels[worst]
    train = Dataset(
        digits.train.inputs, corrected, digits.train.class_names, digits.train.true_labels
    )
    after = run.judgment(replace(digits, train=train)).suspects
    assert roc_auc_score(train.labels != train.true_labels, after.score) > 0.95
    assert (after.probability[worst] < 0.5).double().mean() > 0.9


def test_other_data_is_refused(run, digits):
    order = torch.arange(len(digits.train)).flip(0)
    with pytest.raises(DataError, match="in another order"):
        run.judgment(replace(digits, train=digits.train.subset(order)))
    with pytest.raises(DataError, match="other classes"):
        run.judgment(noisy_clouds())
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
    found = load_run(tmp_path / "run", network()).judgment(splits).suspects
    assert len(found.score) == len(splits.train)


def test_the_table_and_the_page(run, digits):
    found = run.judgment(digits).suspects
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
    found = run.judgment(digits).suspects
    assert suspects_frame(found, named)["example"][0] == names[found.ranking[0]]


def test_an_unfinished_run(run, digits, tmp_path):
    (tmp_path / "config.json").write_text(run.folder.config.read_text())
    with pytest.raises(ValueError, match="holds no finished run"):
        load_run(tmp_path).judgment(digits)
    (tmp_path / "config.json").write_text("{}}")
    with pytest.raises(ValueError, match="is damaged"):
        load_run(tmp_path)


def test_the_training_data_is_inferred_once(tmp_path, monkeypatch):
    """The suspects, the queue and the audit rest on one judgment; other labels have another."""
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
    run = load_run(folder)
    for use in (run.judgment, run.suspects, run.review_queue, run.audit):
        use(splits)
    assert len(inferred) == 1
    labels = splits.train.labels.roll(1)
    run.judgment(replace(splits, train=replace(splits.train, labels=labels)))
    assert len(inferred) == 2
