"""The choice of a recipe: by evidence that no judged label had a part in, and plain if in doubt."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.learners.network import judged_epochs
from noisebound.pages.run_page import run_page
from noisebound.paper.run import DataSources
from noisebound.runs import train_run
from noisebound.runs.noise_record import noise_record
from noisebound.search import confirmation, search
from noisebound.search.choice import Choice
from noisebound.search.confirmation import confirmed, held_out_split
from noisebound.search.evidence import Evidence
from noisebound.search.problem import Problem
from noisebound.search.recipes import OF_SEVERAL_LABELS, RECIPES, Candidate
from noisebound.search.search import Search, Searched
from noisebound.training import TrainingConfig
from noisebound.training.config import RecipeName
from noisebound.training.data import TrainingData
from noisebound.training.session import Session
from settings import PLANTED, Setting, noisy_data
from training_data import noisy_clouds

ONE_LABEL = [name for name in RECIPES if name not in OF_SEVERAL_LABELS]


def test_every_name_is_a_recipe():
    assert set(get_args(RecipeName)) == set(RECIPES)
    assert next(iter(RECIPES)) == "plain"


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
        assert {each.recipe for each in run.recipe.tried} == set(ONE_LABEL)
        assert {each.learner for each in run.recipe.tried} == {"network"}
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
        (section,) = (each for each in run_page(run).sections if each.title == "The choice")
        assert "all recipes except plain training use them" in section.text
        # What is saved computes what the regularized network has learned.
        predicted = torch.from_numpy(again.predict_proba(inputs[400:].numpy())).argmax(1)
        accuracy = (predicted == labels[400:]).double().mean().item()
        assert accuracy == pytest.approx(run.result.final.averaged_test_top1, abs=1e-3)
        assert not any("factors" in name for name in again.model.state_dict())

    def test_all_examples_decide_the_stage(self, tmp_path, monkeypatch):
        """A search on a part of the examples does not show the epochs of the whole."""
        stopped = Evidence("gce", True, 7, 0.9, 0.1, 0.01, 120)
        leaders = (Candidate("network", "plain"),)
        searched = Searched(Choice((stopped,), (stopped,)), leaders)
        monkeypatch.setattr(Search, "run", lambda _: searched)
        watched, soonest = [], confirmation.soonest_agreeing

        def watch(hits):
            watched.append(hits)
            return soonest(hits)

        monkeypatch.setattr(confirmation, "soonest_agreeing", watch)
        run = train_run(noisy_clouds(n=400), self.config(validation_share=0.2), tmp_path / "run")
        assert all(found.shape == (len(judged_epochs(8)), 80) for found in watched)
        assert run.recipe.chosen.epochs == judged_epochs(8)[soonest(watched[-1])] == len(run.epochs)

    def test_members_that_are_clearly_behind_on_all_examples_are_left_out(self, monkeypatch):
        members = [
            Evidence("plain", False, 0, 0.8, 0.1, 0.02, 120, learner=learner)
            for learner in ("linear", "trees", "neighbors")
        ]
        level = torch.rand(400, generator=torch.Generator().manual_seed(0))
        curves = {
            "linear": (0.5, 0.6, 0.7, 0.6, 0.5),
            "trees": (0.3, 0.3, 0.4, 0.3, 0.3),
            "neighbors": (0.5, 0.6, 0.7, 0.7, 0.7),
        }

        def on_all(problem, member, noise):
            found = torch.stack([level < share for share in curves[member.learner]])
            labels = torch.zeros(400, dtype=torch.int64)
            right = found[confirmation.soonest_agreeing(found)]
            logits = torch.stack([right.float(), (~right).float()], 1)
            return OutOfFold(logits, labels, torch.arange(400), hits=found)

        monkeypatch.setattr(confirmation, "_on_all", on_all)
        data = TrainingData.unsplit(noisy_clouds().train)
        problem = Problem(data, TrainingConfig(), torch.nn.Linear(6, 4), Session())
        choice = confirmed(problem, Choice(tuple(members), tuple(members)), None)
        assert [(each.learner, each.stage) for each in choice.members] == [
            ("linear", 2),
            ("neighbors", 3),
        ]

    def test_without_validation_a_tenth_decides_soonest_agreeing(self):
        data = TrainingData.unsplit(noisy_clouds(n=300).train)
        data = replace(data, positions=torch.arange(300))
        trained, watched = held_out_split(data, data, seed=0)
        assert (len(trained.train), len(watched)) == (270, 30)
        rows = torch.cat([trained.train.dense_inputs, watched.dense_inputs])
        assert len(rows.unique(dim=0)) == 300

    def test_a_search_on_all_examples_predicts_all(self, tmp_path, monkeypatch):
        seen = []
        estimate = EstimatedNoise.of.__func__

        def watched(cls, found, *args, others=()):
            seen.append((found, others))
            return estimate(cls, found, *args, others=others)

        monkeypatch.setattr(EstimatedNoise, "of", classmethod(watched))
        run = train_run(noisy_clouds(n=240), self.config(), tmp_path / "run")
        found, others = seen[-1]
        *inner, last = [len(each) for _, each in seen]
        assert last == 2  # two more divisions
        assert inner in ([0] * 2, [0] * 4, [0] * 6)  # both halves of each division with recipes
        whole = [each.probabilities for each in (found, *others)]
        for division in whole:
            assert (division.argmax(1) == found.labels).double().mean() > 0.5
            assert sum(torch.equal(division, each) for each in whole) == 1
        mean = torch.stack(whole).mean(0)
        # Suspects are rated by the mean of them all, and so they are when the run is read again.
        for each in (run, nb.load_run(tmp_path / "run")):
            kept = each.noise.out_of_fold.probabilities
            torch.testing.assert_close(kept, mean, atol=1e-6, rtol=0)

    def test_an_interrupted_search_goes_on(self, tmp_path, monkeypatch):
        calls, plain = [], search.cross_fit

        def counted(*args):
            calls.append(args)
            if len(calls) == interrupted_at:
                raise KeyboardInterrupt
            return plain(*args)

        interrupted_at = None
        monkeypatch.setattr(search, "cross_fit", counted)
        whole = train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "whole")
        count, interrupted_at = len(calls), len(calls) + 6
        with pytest.raises(KeyboardInterrupt):
            train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "run")
        resumed = train_run(noisy_clouds(), self.config(epochs=3), tmp_path / "run", resume=True)
        assert len(calls) == 2 * count + 1  # the one that was interrupted is done again
        assert resumed.recipe == whole.recipe
        assert noise_record(resumed.noise) == noise_record(whole.noise)
        assert resumed.result.final.train_loss == whole.result.final.train_loss
        left, right = (tmp_path / run / "model.safetensors" for run in ("whole", "run"))
        assert left.read_bytes() == right.read_bytes()

    @pytest.mark.parametrize("name", ONE_LABEL)
    def test_by_name_nothing_is_tried(self, tmp_path, name):
        run = train_run(noisy_clouds(), self.config(recipe=name, epochs=2), tmp_path / "run")
        assert run.recipe.recipe.name == name
        assert run.recipe.tried == ()
        assert math.isfinite(run.result.final.train_loss)

    @pytest.mark.parametrize(
        "given", [{"loss": "sce+b"}, {"noise_rate": 0.2}, {"bound": 1.0}, {"bound_offset": 0.1}]
    )
    def test_a_recipe_stands_alone(self, given):
        with pytest.raises(ValueError, match=f"a `recipe` brings its own `{next(iter(given))}`"):
            self.config(**given)

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
    train = replace(train, true_labels=None).subset(torch.arange(600))
    splits = Splits(dataset, train, test, source="made")
    found = accuracies(splits, tmp_path, epochs=8, batch_size=100, learning_rate=1e-2)
    assert found["auto"] > found["plain"] - 0.018  # two standard errors of 3,000 examples
