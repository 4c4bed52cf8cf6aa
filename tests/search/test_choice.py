"""The choice of a recipe: by evidence that no judged label had a part in, and plain if in doubt."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from pydantic import TypeAdapter

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.errors import InvalidValueError
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.pages.run_page import run_page
from noisebound.paper.sources import DataSources
from noisebound.runs import train_run
from noisebound.search.choice import Choice, choice_by, worth_another_trial
from noisebound.search.confirmation import held_out_split
from noisebound.search.evidence import Evidence, Judges
from noisebound.search.recipes import RECIPES
from noisebound.search.trial import Trial, soonest_agreeing
from noisebound.training import TrainingConfig
from noisebound.training.config import RecipeName
from noisebound.training.data import TrainingData
from settings import PLANTED, Setting, noisy_data
from training_data import noisy_clouds


def hits(agreements, m=400, seed=0):
    """One row per epoch: which of ``m`` labels were predicted, at these shares."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.rand(m, generator=generator)
    return torch.stack([level < share for share in agreements])


def judges(halves=2, m=400):
    """Labels of two classes that judge trials; two halves in a row hold every label once."""
    whole = torch.arange(2 * m)
    divisions = [(whole[:m], whole[m:]), (whole[::2], whole[1::2]), (whole[1::2], whole[::2])]
    return Judges((whole % 3 > 0).long(), [half for pair in divisions for half in pair][:halves])


def stored_again(choice):
    """The choice as result.json would give it back."""
    adapter = TypeAdapter(Choice)
    return adapter.validate_json(adapter.dump_json(choice))


def test_every_name_is_a_recipe():
    assert set(get_args(RecipeName)) == set(RECIPES)
    assert next(iter(RECIPES)) == "plain"


class TestWhenToStop:
    def test_at_a_clear_peak(self):
        assert soonest_agreeing(hits([0.2, 0.4, 0.6, 0.9, 0.6, 0.4, 0.2])) == 4

    def test_late_epochs_that_are_better_by_chance_alone(self):
        """The last of thirty epochs agree with a few more labels, and with others: no gain."""
        found = hits([0.5] * 3 + [0.7] * 27)
        found[20:] = found[20:].roll(7, dims=1)
        found[20:, (~found[20]).nonzero().flatten()[:2]] = True
        assert found[20:].sum(1).min() > found[:20].sum(1).max()
        assert soonest_agreeing(found) < 10

    def test_late_epochs_that_are_better(self):
        rising = [0.5 + 0.01 * epoch for epoch in range(30)]
        assert soonest_agreeing(hits(rising)) > 25


class TestChoiceByEvidence:
    def trials(self, **others):
        return {"plain": [hits([0.5, 0.5, 0.5])] * 2} | others

    def test_a_clear_winner(self):
        choice = choice_by(self.trials(dropped=[hits([0.6, 0.6, 0.6])] * 2), judges())
        assert choice.chosen.recipe == "dropped"
        assert choice.chosen.gain == pytest.approx(0.1, abs=0.02)
        assert "over plain training" in choice.reason

    def test_in_doubt_plain(self):
        again = hits([0.5, 0.5, 0.5], seed=1)
        choice = choice_by(self.trials(gce=[again] * 2), judges())
        assert (choice.chosen.recipe, choice.chosen.stops_early) == ("plain", False)

    @pytest.mark.parametrize(
        ("gain", "error", "is_convincing"),
        [(0.07, 0.03, True), (0.05, 0.03, False), (0.005, 0.004, False), (0.005, 0.002, True)],
    )
    def test_a_gain_has_to_be_certain(self, gain, error, is_convincing):
        assert Evidence("elr", False, 9, 0.7, gain, error, 500).is_convincing == is_convincing

    def test_what_only_favors_the_commonest_label_is_not_chosen(self):
        """It always predicts class 1, which two labels in three are; plain training knows both."""
        asked = judges()
        guesses = [(asked.labels[half] == 1).expand(3, -1) for half in asked.halves]
        for known in (0.5, 0.55):
            plain = [hits([known] * 3)] * 2
            choice = choice_by({"plain": plain, "gce": guesses}, asked)
            assert choice.tried[0].recipe == "gce"
            assert choice.tried[0].gain > 2 * choice.tried[0].standard_error
            assert choice.tried[0].balanced_gain == pytest.approx(0.5 - known, abs=0.03)
            assert choice.is_plain
            assert "favors the more common labels" in choice.reason

    @pytest.mark.parametrize(
        ("balanced_gain", "beats_guessing", "is_convincing"),
        [(0.0, True, True), (-0.01, True, True), (-0.03, True, False), (0.0, False, False)],
    )
    def test_a_gain_must_not_come_of_the_commoner_labels(
        self, balanced_gain, beats_guessing, is_convincing
    ):
        found = Evidence("elr", False, 9, 0.7, 0.1, 0.01, 500, balanced_gain, 0.02, beats_guessing)
        assert found.is_convincing == is_convincing

    def test_another_takes_the_place_of_what_only_favors_the_commonest_label(self):
        asked = judges()
        guesses = [(asked.labels[half] == 1).expand(3, -1) for half in asked.halves]
        knows_more = [hits([0.62, 0.62, 0.62])] * 2
        trials = {"plain": [hits([0.55, 0.55, 0.55])] * 2, "gce": guesses, "elr": knows_more}
        choice = choice_by(trials, asked)
        assert [each.recipe for each in choice.tried[:2]] == ["gce", "gce"]
        assert choice.chosen.recipe == "elr"
        first = {name: found[:1] for name, found in trials.items()}
        kept = [recipe.name for recipe in worth_another_trial(first, asked)]
        assert {"plain", "elr"} <= set(kept)  # what cannot be chosen drives out none

    def test_what_is_not_ahead_after_a_division_is_given_up(self):
        plain = [hits([0.5, 0.5, 0.5])] * 2
        abreast = [hits([0.5, 0.5, 0.49])] * 2
        none = worth_another_trial({"plain": plain, "gce": abreast}, judges())
        assert none == []
        ahead = [hits([0.5, 0.5, 0.52])] * 2
        some = worth_another_trial({"plain": plain, "gce": abreast, "elr": ahead}, judges())
        assert [recipe.name for recipe in some] == ["plain", "elr"]

    def test_a_half_that_ended_early_does_not_cut_the_others(self):
        """Three of four trials peak at the sixth epoch; one ended after the third."""
        curve = [0.4, 0.45, 0.5, 0.55, 0.6, 0.8, 0.6, 0.55]
        halves = [hits(curve), hits(curve[:3], seed=1), hits(curve, seed=2), hits(curve, seed=3)]
        plain = [hits([0.5] * 8, seed=number) for number in range(4)]
        choice = choice_by({"plain": plain, "gce": halves}, judges(4))
        assert (choice.chosen.recipe, choice.chosen.epochs) == ("gce", 6)

    def test_more_divisions_are_more_evidence(self):
        """What a network predicts by chance differs from division to division."""

        def chance(share, count):
            return [hits([share] * 3, seed=number) for number in range(count)]

        errors = [
            choice_by(
                {"plain": chance(0.5, count), "gce": [each.flip(1) for each in chance(0.6, count)]},
                judges(count),
            ).chosen.standard_error
            for count in (2, 6)
        ]
        assert errors[1] < 0.8 * errors[0]

    def test_a_label_counts_once_however_often_it_judges(self):
        once, thrice = (
            choice_by(
                {"plain": [hits([0.5] * 3, m=800)[:, half] for half in asked.halves]}
                | {"gce": [hits([0.6] * 3, m=800)[:, half] for half in asked.halves]},
                asked,
            ).chosen
            for asked in (judges(2), judges(6))
        )
        assert (thrice.gain, thrice.standard_error) == pytest.approx(
            (once.gain, once.standard_error)
        )
        assert thrice.examples == once.examples == 800

    def test_it_stops_where_the_other_half_stops_best(self):
        """Both halves peak at the third of seven epochs; the last epochs have memorized."""
        curve = [0.4, 0.6, 0.7, 0.6, 0.5, 0.5, 0.5]
        choice = choice_by({"plain": [hits(curve), hits(curve, seed=1)]}, judges())
        assert choice.chosen.stops_early
        assert choice.chosen.epochs == 3
        assert choice.chosen.gain == pytest.approx(0.2, abs=0.05)

    def test_a_peak_of_the_judged_half_alone_is_no_evidence(self):
        """Each half is read at the epoch that the other prefers, and not at its own best."""
        first = hits([0.5, 0.5, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
        second = hits([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.5, 0.5], seed=1)
        choice = choice_by({"plain": [first, second]}, judges())
        stopped = next(each for each in choice.tried if each.stops_early)
        assert stopped.gain == pytest.approx(0, abs=0.03)

    def test_a_recipe_that_breaks_its_promise_is_withdrawn(self):
        """Its trials predicted 60 % of unseen labels; trained on all, it knows half of its own."""
        choice = choice_by(self.trials(gce=[hits([0.6, 0.6, 0.6])] * 2), judges())
        assert choice.after_full_training(hits([0.6], m=800)[0]) == choice
        plain = choice.after_full_training(hits([0.5], m=800)[0])
        assert (plain.is_plain, plain.withdrawn) == (True, choice.chosen)
        assert "its training accuracy was below" in plain.reason
        assert stored_again(plain) == plain

    def test_what_was_given_up_is_not_chosen(self):
        choice = choice_by(self.trials(elr=[hits([0.9, 0.9, 0.9])]), judges())
        assert choice.chosen.recipe == "plain"
        assert any(each.recipe == "elr" and each.examples == 400 for each in choice.tried)

    def test_what_memorizes_is_chosen_for_its_best_epoch_alone(self):
        """Its trials ended after six and five of the seven epochs that plain training has."""
        curve = [0.4, 0.6, 0.8, 0.7, 0.6, 0.5]
        plain = [hits([0.5] * 7), hits([0.5] * 7, seed=1)]
        choice = choice_by(
            {"plain": plain, "gce": [hits(curve), hits(curve[:5], seed=1)]}, judges()
        )
        assert [each.stops_early for each in choice.tried if each.recipe == "gce"] == [True]
        assert (choice.chosen.recipe, choice.chosen.epochs) == ("gce", 3)
        assert choice.chosen.gain == pytest.approx(0.3, abs=0.05)

    def test_what_was_given_up_says_how_far_it_came(self):
        choice = choice_by({"plain": [hits([0.5] * 7)] * 2, "gce": [hits([0.4, 0.3])]}, judges())
        given_up = choice.tried[-1]
        assert (given_up.recipe, given_up.stops_early, given_up.epochs) == ("gce", True, 2)
        assert given_up.gain == pytest.approx(-0.2, abs=0.05)

    def test_the_record_is_lossless(self):
        choice = choice_by(self.trials(dropped=[hits([0.6, 0.6, 0.6])] * 2), judges())
        assert stored_again(choice) == choice


class TestPreparing:
    def data(self):
        labels = torch.tensor([0] * 20 + [1] * 20)
        logits = torch.tensor([[4.0, 0.0]] * 19 + [[0.0, 4.0]] * 21)  # the 20th looks like class 1
        train = Dataset(torch.randn(40, 3), labels, ("a", "b"))
        noise = EstimatedNoise.of(OutOfFold(logits, labels, torch.arange(40)))
        return TrainingData.unsplit(train), noise

    def test_dropped(self):
        data, noise = self.data()
        kept = RECIPES["dropped"].prepare(data, noise)
        assert len(kept.train) == 39
        assert int(kept.train.labels.sum()) == 20

    def test_no_class_is_dropped_whole(self):
        data, _ = self.data()
        lost = EstimatedNoise.of(
            OutOfFold(torch.tensor([[0.0, 4.0]] * 40), data.train.labels, torch.arange(40))
        )
        assert RECIPES["dropped"].prepare(data, lost).train.class_counts().min() > 0

    def test_replaced(self):
        data, noise = self.data()
        targets = RECIPES["replaced"].prepare(data, noise).train.targets
        assert targets[19, 1] > 0.5  # of this one the prediction counts, of all others the label
        others = torch.arange(40) != 19
        assert torch.equal(targets[others].argmax(1), data.train.labels[others])
        assert targets[others].max(1).values.eq(1).all()

    def test_corrected(self):
        data, noise = self.data()
        targets = RECIPES["corrected"].prepare(data, noise).train.targets
        torch.testing.assert_close(targets.sum(1), torch.ones(40))
        assert (targets.argmax(1) == data.train.labels).sum() >= 39


class TestRuns:
    def config(self, **changes):
        settings = {"epochs": 8, "batch_size": 30, "learning_rate": 1e-2, "average_epochs": 1}
        return TrainingConfig(**(settings | {"recipe": "auto", "model": "small_mlp"} | changes))

    def test_auto_says_what_it_tried(self, tmp_path):
        splits = noisy_clouds(n=240)
        run = train_run(splits, self.config(), tmp_path / "run")
        tried = {each.recipe for each in run.recipe.tried}
        assert tried == set(RECIPES) - ({"regularized"} if not run.recipe.regularize else set())
        assert run.result.final.averaged_test_top1 > 0.8
        again = nb.load_run(tmp_path / "run")
        assert again.recipe == run.recipe
        assert len(again.suspects(splits)) == 240

    def test_networks_are_regularized_where_it_helps(self, tmp_path):
        """Of two hundred features five tell something: a usual network learns the others too."""
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(1_400, 200, generator=generator)
        labels = (inputs[:, :5].sum(1) > 0).long()
        train = Dataset(inputs[:400], labels[:400], ("a", "b"))
        splits = Splits("wide", train, Dataset(inputs[400:], labels[400:], ("a", "b")), "made")
        config = self.config(epochs=12, validation_share=0, learning_rate=1e-3)
        run = train_run(splits, config, tmp_path / "run")
        assert run.recipe.regularize
        assert not run.recipe.is_plain
        assert "regularized network" in run.recipe.label
        again = nb.load_run(tmp_path / "run")
        assert again.recipe == run.recipe
        (section,) = (each for each in run_page(run).sections if each.title == "The recipe")
        assert "all recipes except plain training use them" in section.text
        # What is saved computes what the regularized network has learned.
        predicted = torch.from_numpy(again.predict_proba(inputs[400:].numpy())).argmax(1)
        accuracy = (predicted == labels[400:]).double().mean().item()
        assert accuracy == pytest.approx(run.result.final.averaged_test_top1, abs=1e-3)
        assert not any("factors" in name for name in again.model.state_dict())

    def test_all_examples_decide_soonest_agreeing(self, tmp_path, monkeypatch):
        """A search on a part of the examples does not tell the epochs of the whole."""
        monkeypatch.setattr("noisebound.search.recipe_search.SEARCH_EXAMPLES", 120)
        stopped = Evidence("gce", True, 7, 0.9, 0.1, 0.01, 120)
        monkeypatch.setattr(
            "noisebound.search.recipe_search.choice_by",
            lambda *_, **__: Choice(stopped, (stopped,)),
        )
        watched, run_trial = [], Trial.run

        def watch(trial, *args, **kwargs):
            found = run_trial(trial, *args, **kwargs)
            if trial.title.startswith("all examples"):
                watched.append(found.hits)
            return found

        monkeypatch.setattr(Trial, "run", watch)
        run = train_run(noisy_clouds(n=400), self.config(validation_share=0.2), tmp_path / "run")
        assert len(watched) == 1
        assert run.recipe.chosen.epochs == soonest_agreeing(watched[0]) == len(run.epochs)

    def test_a_recipe_is_checked_on_all_examples(self, tmp_path, monkeypatch):
        """No network agrees with nearly all of these labels, a fifth of which are wrong."""
        promise = Evidence("gce", True, 2, 0.99, 0.3, 0.01, 240)
        plain = Evidence("plain", False, 8, 0.69, 0.0, 0.0, 240)
        chosen = Choice(promise, (promise, plain))
        monkeypatch.setattr("noisebound.search.recipe_search.choice_by", lambda *_, **__: chosen)
        run = train_run(noisy_clouds(n=240), self.config(), tmp_path / "run")
        assert run.recipe.withdrawn == promise
        assert (run.recipe.recipe.name, len(run.epochs)) == ("plain", 8)

    def test_two_recipes_abreast_are_told_apart_by_all_examples(self, tmp_path, monkeypatch):
        monkeypatch.setattr("noisebound.search.recipe_search.SEARCH_EXAMPLES", 120)
        first = Evidence("gce", True, 7, 0.8, 0.10, 0.02, 120)
        second = Evidence("dropped", True, 5, 0.79, 0.09, 0.02, 120)
        far = Evidence("elr", True, 5, 0.75, 0.05, 0.02, 120)
        plain = Evidence("plain", False, 8, 0.7, 0.0, 0.0, 120)
        tried = Choice(first, (first, second, far, plain))
        assert tried.finalists == (first, second)
        monkeypatch.setattr("noisebound.search.recipe_search.choice_by", lambda *_, **__: tried)
        run = train_run(noisy_clouds(n=400), self.config(validation_share=0.2), tmp_path / "run")
        assert [each.recipe for each in run.recipe.finals] == ["gce", "dropped"]
        assert [each.examples for each in run.recipe.finals] == [80, 80]
        assert run.recipe.chosen in run.recipe.finals
        assert nb.load_run(tmp_path / "run").recipe == run.recipe
        assert "trained on all examples" in run.recipe.reason
        (recipe,) = (each for each in run_page(run).sections if each.title == "The recipe")
        assert [table.name for table in recipe.tables] == ["recipes", "finals"]

    def test_the_comparison_overrules_the_trials_on_clear_evidence_alone(self):
        first = Evidence("elr", True, 7, 0.8, 0.10, 0.02, 400)
        second = Evidence("gce", False, 10, 0.79, 0.09, 0.02, 400)
        choice = Choice(first, (first, second))
        worse, better = hits([0.3, 0.5, 0.4]), hits([0.3, 0.5, 0.6])
        labels = torch.arange(400) % 2
        assert choice.after_comparison([worse, better], labels).chosen.recipe == "gce"
        assert choice.after_comparison([worse, better], labels).chosen.epochs == 3
        assert choice.after_comparison([worse, worse], labels).chosen.recipe == "elr"

    def test_without_validation_a_tenth_decides_soonest_agreeing(self):
        data = TrainingData.unsplit(noisy_clouds(n=300).train)
        data = replace(data, positions=torch.arange(300))
        trained, watched = held_out_split(data, data, seed=0)
        assert (len(trained.train), len(watched)) == (270, 30)
        rows = torch.cat([trained.train.dense_inputs, watched.dense_inputs])
        assert len(rows.unique(dim=0)) == 300

    def test_a_search_on_all_examples_has_opinions_on_all(self, tmp_path, monkeypatch):
        seen = []
        estimate = EstimatedNoise.of.__func__

        def watched(cls, found, *args, others=()):
            seen.append((found, others))
            return estimate(cls, found, *args, others=others)

        monkeypatch.setattr(EstimatedNoise, "of", classmethod(watched))
        run = train_run(noisy_clouds(n=240), self.config(), tmp_path / "run")
        found, others = seen[-1]
        assert [len(each) for _, each in seen] == [0] * 6 + [3]  # three divisions
        opinions = [each.probabilities for each in (found, *others)]
        for opinion in opinions[1:]:
            assert (opinion.argmax(1) == found.labels).double().mean() > 0.5
            assert sum(torch.equal(opinion, each) for each in opinions) == 1
        mean = torch.stack(opinions).mean(0)
        # Suspects are rated by the mean of them all, and so they are when the run is read again.
        for each in (run, nb.load_run(tmp_path / "run")):
            kept = each.noise.out_of_fold.probabilities
            torch.testing.assert_close(kept, mean, atol=1e-6, rtol=0)

    def test_an_interrupted_search_goes_on(self, tmp_path, monkeypatch):
        whole = train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "whole")
        plain, calls = Trial.run, []

        def interrupted(self, *args, **kwargs):
            calls.append(self.title)
            if len(calls) == 6:
                raise KeyboardInterrupt
            return plain(self, *args, **kwargs)

        monkeypatch.setattr(Trial, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "run")
        resumed = train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "run", resume=True)
        assert len(calls) == len(set(calls)) + 1  # the one that was interrupted is done again
        assert resumed.recipe == whole.recipe
        assert resumed.result.final.train_loss == whole.result.final.train_loss

    @pytest.mark.parametrize("name", list(RECIPES))
    def test_by_name_nothing_is_tried(self, tmp_path, name):
        run = train_run(noisy_clouds(), self.config(recipe=name, epochs=2), tmp_path / "run")
        assert run.recipe.recipe.name == name
        assert run.recipe.tried == ()
        assert math.isfinite(run.result.final.train_loss)

    @pytest.mark.parametrize(
        "given", [{"loss": "sce+b"}, {"noise_rate": 0.2}, {"bound": 1.0}, {"bound_offset": 0.1}]
    )
    def test_a_recipe_stands_alone(self, tmp_path, given):
        with pytest.raises(InvalidValueError, match="recipe"):
            train_run(noisy_clouds(), self.config(**given), tmp_path / "run")

    def test_few_examples_train_plainly(self, tmp_path):
        few = noisy_clouds(n=40)
        with pytest.warns(UserWarning, match="too few"):
            run = train_run(few, self.config(epochs=2), tmp_path / "run")
        assert run.recipe.recipe.name == "plain"
        assert "too few" in run.recipe.reason
        assert not run.noise.is_known

    @pytest.mark.parametrize(("named", "trained"), [("gce", "gce"), ("dropped", "plain")])
    def test_of_few_examples_the_record_says_what_trained(self, tmp_path, named, trained):
        """What needs no estimate of the noise trains as it was named."""
        with pytest.warns(UserWarning, match="too few"):
            run = train_run(
                noisy_clouds(n=40), self.config(epochs=2, recipe=named), tmp_path / "run"
            )
        assert run.recipe.recipe.name == trained
        assert nb.load_run(tmp_path / "run").recipe == run.recipe
        assert ("too few" in run.recipe.reason) == (trained != named)


def unequal_clouds(noise):
    """Two clouds that overlap, with one example in seven in the smaller one, and noisy labels."""
    generator = torch.Generator().manual_seed(0)

    def clouds(count):
        labels = (torch.arange(count) % 7 == 0).long()
        inputs = torch.randn(count, 20, generator=generator)
        inputs[:, 0] += 4 * labels
        return Dataset(inputs, labels, ("many", "few"))

    train, test = clouds(700), clouds(3_000)
    noisy = train.labels.clone()
    if noise == "symmetric":
        noisy = nb.corrupt(noisy, "symmetric", 0.3, 2, generator=generator).labels
    else:
        noisy[(noisy == 1) & (torch.rand(700, generator=generator) < 0.4)] = 0
    return Splits("unequal", replace(train, labels=noisy), test, source="made")


def accuracies(splits, folder, **settings):
    """Of plain training and of auto on clean test labels; only the end of each is looked at."""
    settings |= {"model": "small_mlp", "measure_every": settings["epochs"]}
    return {
        recipe: train_run(
            splits, TrainingConfig(recipe=recipe, **settings), folder / recipe
        ).result.final.averaged_test_top1
        for recipe in ("plain", "auto")
    }


def test_a_small_class_does_not_keep_training_plain(tmp_path):
    """The best that can be predicted is hardly more than the commoner label."""
    splits = unequal_clouds("symmetric")
    found = accuracies(splits, tmp_path, epochs=25, batch_size=100, learning_rate=5e-3)
    assert found["auto"] > found["plain"] + 0.05


def test_a_class_that_loses_its_labels_is_not_given_up(tmp_path):
    splits = unequal_clouds("of the small class")
    found = accuracies(splits, tmp_path, epochs=25, batch_size=100, learning_rate=5e-3)
    assert found["auto"] > found["plain"] - 0.012  # two standard errors of 3,000 examples


@pytest.mark.parametrize("dataset", list(PLANTED))
def test_ignorance_is_not_taken_for_noise(tmp_path, dataset):
    """Sets of which little is learned: auto may gain little, but must not do harm."""
    setting = Setting(dataset, "symmetric-0.2", "tables", "dev")
    train, test = noisy_data(setting, 0, DataSources())
    splits = Splits(dataset, replace(train, true_labels=None), test, source="made")
    found = accuracies(splits, tmp_path, epochs=15, batch_size=100, learning_rate=1e-2)
    assert found["auto"] > found["plain"] - 0.018  # two standard errors of 3,000 examples
