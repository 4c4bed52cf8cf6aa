"""A run is reviewed from Python: queue, audit, decisions."""

import pytest

from noisebound.runs import load_run, train_run
from noisebound.training import TrainingConfig
from training_data import mistaken_digits


@pytest.fixture(scope="module")
def digits():
    return mistaken_digits()


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("review") / "run"
    return train_run(
        digits, TrainingConfig(loss="fce+b", model="small_mlp", epochs=40, batch_size=100), folder
    )


@pytest.fixture
def run(trained):
    yield trained
    trained.folder.decisions.unlink(missing_ok=True)


def true_name(digits, position):
    return digits.train.class_names[int(digits.train.true_labels[position])]


def test_a_person_who_knows_the_truth_finds_mostly_wrong_labels(run, digits):
    queue = run.review_queue()
    for suspect in queue.next(60):
        run.decide(suspect.position, true_name(digits, suspect.position), by="Ada")
    verdicts = [each.verdict for each in run.decisions]
    assert verdicts.count("wrong") > 50
    assert len(run.review_queue()) == len(digits.train) - 60


def test_the_verdict_follows_from_the_label(run, digits):
    given = digits.train.class_names[int(digits.train.labels[3])]
    assert run.decide(3, given).verdict == "right"
    assert run.decide(4, None).verdict == "unusable"
    assert run.decide(5, "9" if given != "9" else "8", by="Ada").by == "Ada"
    assert len(load_run(run.path).decisions_about(digits)) == 3


def test_an_audit_of_a_run_tells_its_rate(run, digits):
    audit = run.audit()
    for position in audit.next(100):
        true = true_name(digits, position)
        is_right = true == audit.data.given(position)
        audit.decide(position, *(["right"] if is_right else ["wrong", true]))
    result = run.audit().result()
    actual = (digits.train.labels != digits.train.true_labels).double().mean().item()
    low, high = result.estimate.interval
    assert low < actual < high
    assert high - low < 0.15
    assert result.answered == 100
    assert result.run_rate == run.noise.rate
