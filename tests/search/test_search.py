"""The search: which candidates stay in the race, what is chosen, and why."""

import math
import re

import pytest
import torch
from pydantic import TypeAdapter

from noisebound.data import Dataset
from noisebound.estimation import OutOfFold
from noisebound.learners.network import judged_epochs
from noisebound.search import trials as trials_module
from noisebound.search.choice import Choice
from noisebound.search.confirmation import soonest_agreeing
from noisebound.search.cross_fit import best_stage
from noisebound.search.evidence import Evidence
from noisebound.search.problem import Problem
from noisebound.search.recipes import RECIPES, Candidate
from noisebound.search.search import Search
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.session import Session

LABELS = (torch.arange(800) % 3 > 0).long()


def hits(agreements, m=800, seed=0):
    """One row per stage: which of ``m`` labels were predicted, at these shares."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.rand(m, generator=generator)
    return torch.stack([level < share for share in agreements])


def out_of_fold(found):
    """Predictions that are right where these hits are, read at the best stage."""
    predicted = torch.where(found[best_stage(found)], LABELS, 1 - LABELS)
    logits = torch.nn.functional.one_hot(predicted, 2).float()
    return OutOfFold(logits, LABELS, torch.arange(len(LABELS)), hits=found)


def search_of(trials, divisions=1, **config):
    """A search with finished trials: the hits of each candidate, by division."""
    trials = {
        Candidate("network", name) if isinstance(name, str) else name: found
        for name, found in trials.items()
    }
    stages = next(len(found[0]) for each, found in trials.items() if each.learner == "network")
    epochs = next(each for each in range(1, 100) if len(judged_epochs(each)) == stages)
    is_network = all(each.learner == "network" for each in trials)
    settings = {"epochs": epochs, "learner": "network" if is_network else "auto"} | config
    train = Dataset(torch.zeros(len(LABELS), 2), LABELS, ("a", "b"))
    problem = Problem(
        TrainingData.unsplit(train),
        TrainingConfig(**settings),
        torch.nn.Linear(2, 2),
        Session(show=False),
    )
    search = Search(problem)
    search.divisions = search.divisions[:divisions]
    search.trials.divisions = divisions
    search.trials.update((each, list(map(out_of_fold, found))) for each, found in trials.items())
    return search


def choice_by(trials, divisions=1, **config):
    """The choice that finished trials justify."""
    search = search_of(trials, divisions, **config)
    evidence = sorted(
        map(search.trials.evidence, search.trials.results()), key=lambda each: -each.agreement
    )
    members, agreement = search.trials.members()
    return Choice(members, tuple(evidence), agreement=agreement)


def stored_again(choice):
    """The choice as result.json would give it back."""
    adapter = TypeAdapter(Choice)
    return adapter.validate_json(adapter.dump_json(choice))


PLAIN = {"plain": [hits([0.5, 0.5, 0.5])]}
GUESSES = (LABELS == 1).expand(3, -1)
"""Predicts the more common label alone, which two examples in three have."""


class TestWhenToStop:
    def test_at_a_clear_peak(self):
        assert soonest_agreeing(hits([0.2, 0.4, 0.6, 0.9, 0.6, 0.4, 0.2], m=400)) == 3

    def test_late_stages_that_are_better_by_chance_alone(self):
        """The last of thirty stages agree with a few more labels, and with others: no gain."""
        found = hits([0.5] * 3 + [0.7] * 27, m=400)
        found[20:] = found[20:].roll(7, dims=1)
        found[20:, (~found[20]).nonzero().flatten()[:2]] = True
        assert found[20:].sum(1).min() > found[:20].sum(1).max()
        assert soonest_agreeing(found) < 10

    def test_late_stages_that_are_better(self):
        assert soonest_agreeing(hits([0.5 + 0.01 * stage for stage in range(30)], m=400)) > 24


class TestOneLearner:
    def test_a_clear_winner(self):
        choice = choice_by(PLAIN | {"dropped": [hits([0.6, 0.6, 0.6])]})
        assert choice.chosen.recipe == "dropped"
        assert choice.chosen.gain == pytest.approx(0.1, abs=0.02)
        assert "more than plain training" in choice.reason

    def test_in_doubt_plain(self):
        choice = choice_by(PLAIN | {"gce": [hits([0.5, 0.5, 0.5], seed=1)]})
        assert choice.is_plain
        assert (choice.chosen.recipe, choice.chosen.stops_early) == ("plain", False)

    @pytest.mark.parametrize(
        ("share", "chosen"), [(0.505, "plain"), (0.54, "plain"), (0.62, "gce")]
    )
    def test_a_gain_has_to_be_certain(self, share, chosen):
        """Both predict labels independently of each other, so that chance separates them too."""
        other = hits([share] * 3, seed=3)
        assert choice_by(PLAIN | {"gce": [other]}).chosen.recipe == chosen

    @pytest.mark.parametrize(
        ("gain", "error", "is_convincing"),
        [(0.07, 0.03, True), (0.05, 0.03, False), (0.005, 0.004, False), (0.005, 0.002, True)],
    )
    def test_evidence_has_to_be_certain(self, gain, error, is_convincing):
        assert Evidence("elr", False, 9, 0.7, gain, error, 500).is_certain == is_convincing

    @pytest.mark.parametrize("known", [0.5, 0.55])
    def test_what_only_favors_the_commonest_label_is_not_chosen(self, known):
        """It always predicts class 1; plain training knows both."""
        choice = choice_by({"plain": [hits([known] * 3)], "gce": [GUESSES]})
        assert choice.tried[0].recipe == "gce"
        assert choice.tried[0].gain > 2 * choice.tried[0].standard_error
        assert choice.tried[0].balanced_gain == pytest.approx(0.5 - known, abs=0.03)
        assert choice.is_plain
        assert "favors the more common labels" in choice.reason

    @pytest.mark.parametrize(
        ("balanced_gain", "beats_guessing", "is_convincing"),
        [(0.0, True, True), (-0.01, True, True), (-0.03, True, False), (0.0, False, False)],
    )
    def test_a_gain_must_not_come_from_the_commoner_labels(
        self, balanced_gain, beats_guessing, is_convincing
    ):
        found = Evidence("elr", False, 9, 0.7, 0.1, 0.01, 500, balanced_gain, 0.02, beats_guessing)
        assert (found.is_certain and not found.favors_common_labels) == is_convincing

    def test_another_takes_the_place_of_what_only_favors_the_commonest_label(self):
        trials = {
            "plain": [hits([0.5, 0.5, 0.5])],
            "gce": [GUESSES],
            "elr": [hits([0.57, 0.57, 0.57])],
        }
        choice = choice_by(trials)
        assert choice.tried[0].recipe == "gce"
        assert choice.chosen.recipe == "elr"
        search = search_of(trials)
        kept = {each.recipe for each in search.trials.in_the_race(list(search.trials))}
        assert "elr" in kept  # what cannot be chosen drives out none

    def test_what_is_clearly_behind_leaves_the_race(self):
        trials = PLAIN | {"gce": [hits([0.3] * 3)], "elr": [hits([0.49] * 3, seed=1)]}
        search = search_of(trials)
        kept = [each.recipe for each in search.trials.in_the_race(list(search.trials))]
        assert kept == ["plain", "elr"]

    def test_what_is_not_ahead_of_its_learner_is_given_up(self):
        trials = PLAIN | {"gce": [hits([0.5, 0.5, 0.49])], "elr": [hits([0.5, 0.5, 0.52])]}
        search, plain = search_of(trials), Candidate("network", "plain")
        assert not search.trials.is_ahead(Candidate("network", "gce"), plain)
        assert search.trials.is_ahead(Candidate("network", "elr"), plain)
        assert not search.trials.is_ahead(Candidate("network", "sce+b"), plain)  # it was not tried

    def test_more_divisions_are_more_evidence(self):
        """What a network predicts by chance differs from division to division."""

        def chance(share, count):
            return [hits([share] * 3, seed=number) for number in range(count)]

        errors = [
            choice_by(
                {"plain": chance(0.5, count), "gce": [each.flip(1) for each in chance(0.6, count)]},
                count,
            ).chosen.standard_error
            for count in (1, 2)
        ]
        assert errors[1] < 0.8 * errors[0]

    def test_a_label_counts_once_however_often_it_judges(self):
        once, twice = (
            choice_by({"plain": [hits([0.5] * 3)] * count, "gce": [hits([0.6] * 3)] * count}, count)
            for count in (1, 2)
        )
        assert (twice.chosen.gain, twice.chosen.standard_error) == pytest.approx(
            (once.chosen.gain, once.chosen.standard_error)
        )
        assert twice.chosen.examples == once.chosen.examples == 800

    def test_plain_training_may_stop_early(self):
        """It peaks at the third of seven stages; the last ones have memorized."""
        choice = choice_by({"plain": [hits([0.4, 0.6, 0.7, 0.6, 0.5, 0.5, 0.5])]})
        assert choice.chosen.stops_early
        assert (choice.chosen.recipe, choice.chosen.epochs) == ("plain", 3)
        assert choice.chosen.gain == pytest.approx(0.2, abs=0.05)
        assert [each.stops_early for each in choice.tried] == [True, False]

    def test_what_was_given_up_is_not_chosen(self):
        trials = {"plain": PLAIN["plain"] * 2, "elr": [hits([0.9, 0.9, 0.9])]}
        choice = choice_by(trials, divisions=2)
        assert choice.chosen.recipe == "plain"
        assert any(each.recipe == "elr" and each.examples == 800 for each in choice.tried)

    def test_gains_compare_the_same_divisions(self):
        """Plain training was lucky in the division in which another candidate was not tried."""
        plain = [hits([0.5] * 3), hits([0.8] * 3, seed=1)]
        choice = choice_by({"plain": plain, "elr": [hits([0.6] * 3)]}, divisions=2)
        found = next(each for each in choice.tried if each.recipe == "elr")
        assert found.gain == pytest.approx(0.1, abs=0.02)

    def test_what_memorizes_is_chosen_for_its_best_stage(self):
        curve = [0.4, 0.6, 0.8, 0.6, 0.5, 0.5, 0.5]
        choice = choice_by({"plain": [hits([0.5] * 7)], "gce": [hits(curve)]})
        assert [each.stops_early for each in choice.tried if each.recipe == "gce"] == [True]
        assert (choice.chosen.recipe, choice.chosen.epochs) == ("gce", 3)
        assert choice.chosen.gain == pytest.approx(0.3, abs=0.05)

    def test_the_record_is_lossless(self):
        choice = choice_by(PLAIN | {"dropped": [hits([0.6, 0.6, 0.6])]})
        assert stored_again(choice) == choice


def others(**shares):
    """Trials of plain candidates of learners, independent of each other."""
    return {
        Candidate(learner, "plain"): [hits([share] * 3, seed=number + 1)]
        for number, (learner, share) in enumerate(shares.items())
    }


class TestSeveralLearners:
    def test_learners_whose_mean_predicts_more_labels_are_averaged(self):
        """Of three independent learners that are right in 70 %, the majority is in 78 %."""
        trials = PLAIN | others(linear=0.7, trees=0.7, neighbors=0.7)
        choice = choice_by(trials)
        assert {each.learner for each in choice.members} == {"linear", "trees", "neighbors"}
        assert choice.agreement == pytest.approx(0.784, abs=0.03)
        shares = [each.agreement for each in choice.members]
        assert shares == sorted(shares, reverse=True)
        assert choice.network is None
        assert choice.label.startswith("the average of ")
        assert choice.reason.endswith(f"their average {choice.agreement:.1%}")
        assert stored_again(choice) == choice

    def test_a_learner_that_makes_the_mean_worse_is_left_out(self):
        choice = choice_by(PLAIN | others(linear=0.8, trees=0.3, neighbors=0.3))
        assert [each.learner for each in choice.members] == ["linear"]
        assert choice.agreement == choice.chosen.agreement

    @pytest.mark.parametrize(
        ("few", "size", "recipes"),
        [(800, 3, {"plain", "dropped"}), (800, 1, {"plain"}), (799, 3, {"plain"})],
        ids=["few", "one", "many"],
    )
    def test_among_few_examples_suspects_are_both_kept_and_dropped(
        self, few, size, recipes, monkeypatch
    ):
        """Networks are trained once, and by whichever recipe predicted more labels."""
        monkeypatch.setattr(trials_module, "FEW", few)
        dropped = {Candidate("trees", "dropped"): [hits([0.6] * 3, seed=5)]}
        dropped |= {"dropped": [hits([0.7] * 3, seed=6)]}
        choice = choice_by(PLAIN | others(trees=0.8) | dropped, ensemble_size=size)
        found = [each for each in choice.members if each.learner == "trees"]
        assert {each.recipe for each in found} == recipes
        networks = [each.recipe for each in choice.members if each.learner == "network"]
        assert networks in ([], ["dropped"])
        assert stored_again(choice) == choice

    @pytest.mark.parametrize("size", [1, 3])
    def test_an_ensemble_has_a_size(self, size):
        trials = PLAIN | others(linear=0.7, boosting=0.7, trees=0.7, neighbors=0.7)
        choice = choice_by(trials, ensemble_size=size)
        assert len(choice.members) == size
        assert choice.chosen.agreement == choice.tried[0].agreement
        assert ("average" in choice.label) == (size > 1)

    def test_a_member_takes_the_best_recipe_of_its_learner(self):
        dropped = {Candidate("linear", "dropped"): [hits([0.75] * 3, seed=1)]}
        choice = choice_by(PLAIN | others(linear=0.7, trees=0.72) | dropped)
        assert choice.chosen.candidate == Candidate("linear", "dropped")
        assert [each.learner for each in choice.members].count("linear") == 1

    def test_no_network_is_better_than_a_bad_one(self):
        choice = choice_by(PLAIN | others(linear=0.9))
        assert [each.candidate.label for each in choice.members] == ["logistic regression"]
        assert choice.chosen.gain == pytest.approx(0.4, abs=0.03)
        assert (choice.chosen.epochs, choice.is_plain) == (0, False)

    def test_learners_far_behind_leave_the_race(self):
        search = search_of(PLAIN | others(linear=0.7, trees=0.69, neighbors=0.4))
        kept = search.trials.in_the_race(list(search.trials))
        assert [each.learner for each in kept] == ["linear", "trees"]


class TestNetworksOnPixels:
    """Their trainings take minutes, so fewer recipes are tried, and the time is announced."""

    def search(self):
        images = Dataset(torch.zeros(60, 1, 8, 8, dtype=torch.uint8), LABELS[:60], ("a", "b"))
        config, network = (
            TrainingConfig(epochs=4),
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)),
        )
        return Search(Problem(TrainingData.unsplit(images), config, network, Session(show=False)))

    def test_fewer_recipes_are_tried(self):
        on_pixels, on_numbers = self.search().problem, search_of({"plain": [hits([0.5])]}).problem
        recipes = on_pixels.recipes("network")
        assert 0 < len(recipes) < len(on_numbers.recipes("network"))
        assert set(recipes) < set(on_numbers.recipes("network"))

    def test_the_time_is_announced(self):
        assert re.search(r", about \d+:\d\d:\d\d left$", self.search()._announcement())
        assert "left" not in search_of({"plain": [hits([0.5])]})._announcement()


def test_trials_run_at_least_until_plain_training_is_best():
    train = Dataset(torch.randn(60, 2), LABELS[:60], ("a", "b"))
    config = TrainingConfig(epochs=6, learner="network", learning_rate=1e-2)
    problem = Problem(
        TrainingData.unsplit(train), config, torch.nn.Linear(2, 2), Session(show=False)
    )
    search = Search(problem)
    search.race_of_learners()
    plain = search.trials[Candidate("network", "plain")]
    stage = best_stage(torch.cat([each.hits for each in plain], dim=1))
    assert search.problem.fewest_epochs == judged_epochs(6)[stage] > 0


def test_a_regularized_network_is_only_said_of_networks():
    linear = Evidence("dropped", False, 0, 0.8, 0.1, 0.01, 400, learner="linear")
    network = Evidence("dropped", False, 9, 0.8, 0.1, 0.01, 400)
    assert "regularized" not in Choice((linear,), regularize=True).label
    assert "regularized" in Choice((network,), regularize=True).label
    assert math.isclose(network.agreement_error, 0.02)
    assert RECIPES["plain"] is Choice.named("plain", 3).recipe
