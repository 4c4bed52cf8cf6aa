"""Second labels by a person who does not see the first: kept, and used as labels."""

import pytest
import torch
from pydantic import ValidationError

from noisebound.errors import InvalidValueError
from noisebound.pages.review.session import AskedDecisions, AskedUndo, ReviewSession
from noisebound.review import DecisionFile, ReviewedData
from noisebound.runs import load_run, train_run
from noisebound.runs.corrections import with_second_labels
from noisebound.training import TrainingConfig
from training_data import noisy_clouds

BRIEF = {"recipe": "plain", "learner": "linear"}


@pytest.fixture
def splits():
    return noisy_clouds(300)


@pytest.fixture
def run(splits, tmp_path):
    return train_run(splits, TrainingConfig(**BRIEF), tmp_path / "run", show=False)


def label(session, example, name):
    asked = {"position": example["position"], "verdict": "labeled", "label": name}
    whole = {"decisions": [asked], "where": "second opinion", "how": "person"}
    return session.decide(AskedDecisions(**whole))


def label_all(session, splits):
    """Label the sample with the truth, and return its positions."""
    names, positions = splits.train.class_names, []
    while (example := session.second()["next"]) is not None:
        positions.append(example["position"])
        label(session, example, names[splits.train.true_labels[positions[-1]]])
    return positions


def test_the_first_label_is_hidden(run, splits):
    session = ReviewSession(run, splits, "Ada", second_opinion=20)
    shown = session.second()
    assert set(shown["next"]) == {"position", "name", "kind", "text", "columns"}
    assert (shown["done"], shown["of"]) == (0, 20)
    label(session, shown["next"], "a")
    assert session.second()["done"] == 1
    session.undo(AskedUndo())
    assert session.second()["next"] == shown["next"]


def test_second_labels_say_how_noisy_all_labels_are(run, splits):
    session = ReviewSession(run, splits, "Ada", second_opinion=150)
    positions = label_all(session, splits)
    assert len(set(positions)) == 150
    assert "Noise rate of all labels" in session.second()["words"]
    found = run.second_opinion(splits)
    rates = dict(zip(found.annotators.names, found.annotators.error_rates.tolist(), strict=True))
    assert rates["given"] == pytest.approx(1 / 3, abs=0.1)
    assert rates["Ada"] < 0.15
    # They decide nothing about the first label.
    assert len(run.decisions_about(splits)) == 0
    assert torch.equal(run.decisions_about(splits).corrected(), splits.train.labels)


def test_the_next_training_uses_them(run, splits, tmp_path):
    session = ReviewSession(run, splits, "Ada", second_opinion=100)
    positions = label_all(session, splits)
    again = train_run(splits, TrainingConfig(learner="linear"), tmp_path / "again", show=False,
                      corrections=run.folder.decisions)  # fmt: skip
    assert again.result.checks.words == "100 second labels were used beside the given ones."
    assert again.annotators["annotator"].to_list() == ["given", "Ada"]
    assert {each.recipe for each in again.recipe.tried} >= {"votes", "consensus"}
    loaded = load_run(again.path)
    assert loaded.noise.annotators.counts[1] <= len(positions)
    # In memory and loaded again, the run uses each second label once.
    assert again.second_opinion().annotators.names == ("given", "Ada")
    assert loaded.second_opinion(splits).annotators.names == ("given", "Ada")
    kept, found = again.judgment(again.training_data()), loaded.judgment(splits)
    assert found.annotators.counts.tolist() == [300, 100]
    assert torch.equal(kept.suspects.score, found.suspects.score)


def test_the_validation_split_of_a_loaded_run_is_that_of_its_training(splits, tmp_path):
    file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
    names = splits.train.class_names
    for position in range(40):  # two people outvote the given labels, so the classes' shares change
        for person in ("Ada", "Bo"):
            file.decide(position, "labeled", names[0], by=person, where="second opinion")
    config = TrainingConfig(loss="ce", epochs=1, validation_share=0.2)
    run = train_run(splits, config, tmp_path / "run", show=False, corrections=file.path)
    held_out = load_run(run.path)._held_out(splits)
    right = (held_out.probs.argmax(1) == held_out.labels).double().mean().item()
    assert right == pytest.approx(run.final("validation_top1"))


def test_a_tie_goes_to_the_first_label_and_two_others_outvote_it(splits, tmp_path):
    file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
    assert with_second_labels(splits.train, file) is splits.train
    other = splits.train.class_names[(int(splits.train.labels[3]) + 1) % 4]
    file.decide(3, "labeled", other, by="Ada", where="second opinion")
    assert torch.equal(with_second_labels(splits.train, file).labels, splits.train.labels)
    file.decide(3, "labeled", other, by="Bo", where="second opinion")
    train = with_second_labels(splits.train, file)
    assert train.class_names[train.labels[3]] == other
    assert train.annotators == ("given", "Ada", "Bo")
    assert (train.votes >= 0).sum() == 300 + 2


def test_a_tie_goes_to_the_given_label_whoever_agrees_more_elsewhere(splits, tmp_path):
    names, given = splits.train.class_names, splits.train.labels
    file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
    other = [names[(int(label) + 1) % 4] for label in given]
    for position in (0, 1, 2):  # Ada and Bo agree with each other, and never with the given label
        for person in ("Ada", "Bo"):
            file.decide(position, "labeled", other[position], by=person, where="second opinion")
    file.decide(3, "labeled", other[3], by="Ada", where="second opinion")
    changed = with_second_labels(splits.train, file).labels != given
    assert changed.nonzero().flatten().tolist() == [0, 1, 2]


def test_a_second_label_needs_a_class(splits, tmp_path):
    file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
    with pytest.raises(InvalidValueError, match="`label`"):
        file.decide(3, "labeled")
    with pytest.raises(ValidationError):
        AskedDecisions(decisions=[], where="third opinion", how="person")
