"""Scores on true labels by the validation split: computed once, kept, and explained."""

import pytest

from noisebound.errors import RunError
from noisebound.pages.run_page import run_page
from noisebound.runs import load_run, train_run
from noisebound.training import TrainingConfig
from training_data import NAMES, noisy_clouds

CONFIG = TrainingConfig(
    loss="fce+b", noise_rate=1 / 3, model="mlp", epochs=15, batch_size=50, validation_share=0.25
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    clouds = noisy_clouds(400)
    return train_run(clouds, CONFIG, tmp_path_factory.mktemp("scores") / "run", show=False)


def test_the_accuracy_on_true_labels_is_within_its_interval(run):
    found = run.scores.validation
    low, high = found.interval
    assert found.examples == 100
    assert found.noisy_accuracy == pytest.approx(run.final("validation_top1"))
    assert low <= run.final("test_top1") <= high
    assert found.noisy_accuracy < found.accuracy
    assert len(found.recall) == len(NAMES)
    assert run.scores.test.accuracy == pytest.approx(run.final("test_top1"))
    assert "if these labels are right" in run.scores.test.summary


def test_they_are_kept_and_need_no_data(run):
    known = run.scores
    assert load_run(run.path).scores == known


def test_sets_cover_the_true_class_and_need_no_data(run):
    test = noisy_clouds(400).test
    sets = load_run(run.path).predict_sets(test.dense_inputs.numpy())
    hits = [NAMES[label] in names for names, label in zip(sets, test.labels.tolist(), strict=True)]
    assert sum(hits) / len(hits) >= 0.85
    frame = run.predictions(test.dense_inputs.numpy(), coverage=0.9)
    assert frame["set"].to_list() == ["|".join(names) for names in sets]
    larger = run.predict_sets(test.dense_inputs.numpy(), coverage=0.98)
    assert sum(map(len, larger)) >= sum(map(len, sets))


def test_the_report_gives_the_interval_and_its_condition(run):
    page = run_page(run)
    section = next(each for each in page.sections if each.title == "Scores on true labels")
    assert run.scores.validation.summary in section.text
    assert [row.label for row in section.folded[0].rows][:2] == ["macro-F1", "recall of a"]


def test_without_a_validation_split_the_reason_is_given(tmp_path):
    config = CONFIG.model_copy(update={"validation_share": 0.0, "epochs": 1})
    run = train_run(noisy_clouds(), config, tmp_path / "run", show=False)
    assert run.scores.validation is None
    assert "validation_share" in run.scores.words
    with pytest.raises(RunError, match="need a validation split"):
        run.predict_sets(noisy_clouds().test.dense_inputs.numpy())


def test_an_audit_of_the_validation_split_replaces_the_assumption(tmp_path):
    clouds = noisy_clouds(400)
    run = train_run(clouds, CONFIG, tmp_path / "run", show=False)
    assert "checked" not in run.scores.words
    audit, true = run.audit(clouds), clouds.train.true_labels
    for position in audit.next(240):
        name, given = NAMES[true[position]], NAMES[clouds.train.labels[position]]
        is_right = name == given
        audit.decide(position, "right" if is_right else "wrong", None if is_right else name)
    assert "checked labels" in run.scores.validation.condition
    low, high = run.scores.validation.interval
    assert low <= run.final("test_top1") <= high
