"""The queue: the likeliest wrong label first, without what is decided."""

import pytest
import torch

from noisebound.data import Dataset
from noisebound.errors import InvalidValueError
from noisebound.estimation import Suspects
from noisebound.review import DecisionFile, ReviewedData, ReviewQueue

CLASSES = ("cat", "dog", "owl")


def make_queue(folder, score, labels, suggested, **options):
    train = Dataset(torch.zeros(len(labels), 2), torch.tensor(labels), CLASSES)
    file = DecisionFile(folder / "decisions.jsonl", ReviewedData(train))
    suspects = Suspects(torch.tensor(score).double(), torch.tensor(suggested))
    return ReviewQueue(suspects, file, **options)


@pytest.fixture
def queue(tmp_path):
    return make_queue(tmp_path, [0.0, 3.0, -1.0, 2.0, 1.0], [0, 0, 1, 1, 2], [1, 2, 0, 0, 1])


def positions(suspects):
    return [each.position for each in suspects]


def test_the_likeliest_wrong_label_comes_first(queue):
    assert positions(queue.next(5)) == [1, 3, 4, 0, 2]
    first = queue.next()[0]
    assert (first.label, first.suggested) == ("cat", "owl")
    assert first.probability == pytest.approx(1 / (1 + 2.718281828**-3))


def test_decided_labels_leave_the_queue_until_undone(queue):
    made = queue.decisions.decide(1, "unsure")
    assert positions(queue.next(2)) == [3, 4]
    assert len(queue) == 4
    queue.decisions.undo(made.key)
    assert positions(queue.next(2)) == [1, 3]


def test_filters_by_class_and_by_pair(queue):
    assert positions(queue.next(5, label="dog")) == [3, 2]
    assert positions(queue.next(5, label="dog", suggested="cat")) == [3, 2]
    assert positions(queue.next(5, suggested="dog")) == [4, 0]
    assert positions(queue.next(5, label="owl", suggested="cat")) == []
    with pytest.raises(InvalidValueError, match="name of a class"):
        queue.next(label="cow")


def test_pairs_are_ranked_by_expected_wrong_labels(queue):
    pairs = [(each.label, each.suggested, each.waiting) for each in queue.pairs()]
    assert pairs == [("cat", "owl", 1), ("dog", "cat", 1), ("owl", "dog", 1)]
    assert queue.pairs()[0].expected_wrong == pytest.approx(queue.probability[1].item())


def test_suspects_are_the_labels_that_are_more_likely_wrong_than_right(queue):
    assert queue.suspects().tolist() == [1, 3, 4]
    queue.decisions.decide(3, "right")
    assert queue.suspects().tolist() == [1, 4]
    assert positions(queue.next(5)) == [1, 4, 0, 2]  # the queue goes on beyond them


def test_look_alikes_have_the_same_label_and_suggestion(tmp_path):
    queue = make_queue(tmp_path, [1.0] * 5, [0, 0, 1, 0, 0], [1, 1, 0, 2, 1])
    queue.decisions.decide(1, "right")
    assert positions(queue.look_alikes(0, [0, 4, 3, 2, 1])) == [0, 4]
    assert positions(queue.look_alikes(0, [0, 4, 3, 2, 1], most=1)) == [0]


def test_it_pays_while_a_tenth_of_the_last_fifty_was_wrong(tmp_path):
    queue = make_queue(tmp_path, [2.0] * 120, [0] * 120, [1] * 120)
    assert queue.share_wrong is None
    assert queue.pays  # by the suspicions, which may be mistaken
    for position in range(50):
        decision = ("wrong", "dog") if position < 6 else ("right",)
        queue.decisions.decide(position, *decision)
    assert queue.share_wrong == pytest.approx(6 / 50)
    assert queue.pays
    queue.decisions.decide(50, "unsure")  # no information
    queue.decisions.decide(51, "wrong", "dog", where="audit")  # was drawn at random
    assert queue.share_wrong == pytest.approx(6 / 50)
    queue.decisions.decide(52, "right")
    queue.decisions.decide(53, "right")
    assert queue.share_wrong == pytest.approx(4 / 50)
    assert not queue.pays


def test_an_empty_queue_does_not_pay(tmp_path):
    queue = make_queue(tmp_path, [2.0, 2.0], [0, 0], [1, 1])
    queue.decisions.decide(0, "right")
    queue.decisions.decide(1, "right")
    assert not queue.pays
    assert queue.next() == []


def test_pairs_that_were_found_wrong_come_sooner(tmp_path):
    score = [0.0] * 60 + [0.1] * 60
    queue = make_queue(tmp_path, score, [0] * 60 + [1] * 60, [1] * 60 + [0] * 60)
    assert queue.next()[0].position == 60
    for position in range(15):
        queue.decisions.decide(position, "wrong", "dog")
        queue.decisions.decide(60 + position, "right")
    assert positions(queue.next(45)) == list(range(15, 60))
    last = queue.decisions.history[-10:]
    for each in last:
        queue.decisions.undo(each.key)
    assert queue.next()[0].position in (10, 70)  # of twenty decisions nothing is learned yet
