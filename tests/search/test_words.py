"""The words for what trained, and why: on the command line, in reports and in the demo."""

from dataclasses import replace

import pytest

from noisebound.entry import fit
from noisebound.errors import InvalidValueError
from noisebound.learners import Boosting, Linear, Neighbors, Trees
from noisebound.search.choice import Choice
from noisebound.search.evidence import Evidence
from noisebound.search.recipes import Candidate
from noisebound.training.config import LABEL_USES

PLAIN = Evidence("plain", False, 50, 0.50, 0.0, 0.0, 400)
LINEAR = Evidence("plain", False, 0, 0.56, 0.06, 0.02, 400, learner="linear", setting="C = 0.1")
TREES = replace(LINEAR, learner="trees", agreement=0.55, setting="leaves of 8")
DROPPED = Evidence("dropped", True, 12, 0.55, 0.05, 0.02, 400)


@pytest.mark.parametrize(
    ("members", "regularize", "label"),
    [
        ([PLAIN], True, "a network"),
        ([replace(PLAIN, stops_early=True, epochs=19)], False, "a network stopped after epoch 19"),
        ([DROPPED], False, "a network with suspect labels left out, stopped after epoch 12"),
        (
            [DROPPED],
            True,
            "a regularized network with suspect labels left out, stopped after epoch 12",
        ),
        ([replace(PLAIN, recipe="regularized")], True, "a regularized network"),
        ([LINEAR], True, "logistic regression (C = 0.1)"),
        (
            [LINEAR, TREES, PLAIN],
            False,
            "the average of logistic regression (C = 0.1), extremely randomized trees (leaves of "
            "8) and a network",
        ),
    ],
)
def test_what_trains(members, regularize, label):
    assert Choice(tuple(members), (PLAIN,), regularize).label == label


def test_every_candidate_has_words_of_its_own():
    learners = ("network", "linear", "boosting", "trees", "neighbors", "estimator")
    words = {Candidate(learner, use).label for learner in learners for use in LABEL_USES}
    assert len(words) == len(learners) * len(LABEL_USES)
    assert all("  " not in each and each == each.strip() for each in words)


def test_settings_in_words():
    assert Linear().describe(0) == "C = 0.0001"
    assert Trees().describe(0) == "leaves of 24"
    assert Boosting(columns=4).describe(-1) == "80 rounds"
    assert Neighbors().describe(0) == "100 neighbors by Euclidean distance"
    assert Neighbors().describe(-1) == "3 neighbors by cosine"


class TestReasons:
    def test_a_gain_names_its_baseline(self):
        assert Choice((LINEAR,), (LINEAR, PLAIN)).reason == (
            "it predicts 56.0% of the held-out labels, 6.0 ± 2.0 points more than a plain network"
        )
        assert Choice((DROPPED,), (DROPPED, PLAIN)).reason.endswith("more than plain training")
        first = replace(LINEAR, gain=0.0, standard_error=0.0)
        ahead = replace(TREES, agreement=0.6)
        assert Choice((ahead,), (ahead, first)).reason.endswith("more than logistic regression")

    def test_an_ensemble(self):
        assert Choice((LINEAR, TREES), (LINEAR, TREES, PLAIN), agreement=0.57).reason == (
            "they predict 56.0% and 55.0% of the held-out labels, and their average 57.0%"
        )

    def test_plain_training(self):
        by_chance = replace(DROPPED, standard_error=0.04)
        assert "which chance may explain" in Choice((PLAIN,), (by_chance, PLAIN)).reason
        common = replace(DROPPED, balanced_gain=-0.1, balanced_error=0.02)
        assert "favors the more common labels" in Choice((PLAIN,), (common, PLAIN)).reason
        assert Choice((PLAIN,), (PLAIN,)).reason == "nothing else predicts more held-out labels"

    def test_without_trials(self):
        assert Choice.named("dropped", 50).reason == "this recipe was named"
        assert Choice.named("plain", 50, "too few examples").reason == "too few examples"


def test_a_member_is_found_after_its_stage_has_changed():
    choice = Choice((replace(DROPPED, epochs=7),), (DROPPED, PLAIN))
    assert choice.is_member(DROPPED)
    assert not choice.is_member(PLAIN)


def test_evidence_of_old_records_shows_its_epoch():
    assert (DROPPED.stop, LINEAR.stop) == ("epoch 12", "C = 0.1")
    assert replace(LINEAR, learner="estimator", setting="").stop == "as given"


def test_an_estimator_is_not_named(tmp_path):
    with pytest.raises(InvalidValueError, match="the estimator itself"):
        fit("digits", learner="estimator", out=tmp_path)
