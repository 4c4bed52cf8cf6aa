"""Trainings on several labels per example: recipes, evidence and the noise."""

from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.data.votes import majority_vote
from noisebound.errors import InvalidValueError
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.estimation.predictions import FEWEST_JUDGED, hits_of
from noisebound.pages.run_page import run_page
from noisebound.review import DecisionFile, ReviewedData
from noisebound.runs import train_run
from noisebound.runs.corrections import corrected_data
from noisebound.runs.noise_record import StoredNoise, noise_record
from noisebound.search.problem import Problem
from noisebound.search.recipes import RECIPES, for_labels
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.session import Session
from training_data import noisy_clouds

ERRORS = {"ann": 0.05, "bob": 0.3, "cy": 0.6}


def voted(splits, seed=0):
    """The same examples, labeled by three people; each has left out a fifth."""
    g = torch.Generator().manual_seed(seed)
    true = splits.train.true_labels
    size = len(true), len(ERRORS)
    is_wrong = torch.rand(size, generator=g) < torch.tensor(list(ERRORS.values()))
    votes = (true[:, None] + is_wrong * torch.randint(1, 4, size, generator=g)) % 4
    votes[torch.rand(size, generator=g) < 0.2] = -1
    votes[votes.max(1).values < 0, 0] = 0
    train = Dataset(
        splits.train.inputs,
        majority_vote(votes, 4, are_named=True),
        splits.train.class_names,
        true,
        votes=votes,
        annotators=tuple(ERRORS),
    )
    return Splits("voted", train, splits.test, source="made")


def noise_of(data, sureness=4.0):
    """The noise by predictions that are right in nine of ten examples."""
    right = torch.arange(len(data)) % 10 > 0
    predicted = torch.where(right, data.true_labels, (data.true_labels + 1) % 4)
    logits = sureness * torch.nn.functional.one_hot(predicted, 4).float()
    places = torch.arange(len(data))
    return EstimatedNoise.of(
        OutOfFold(logits, data.labels, places, votes=data.votes, annotators=data.annotators)
    )


def test_a_prediction_hits_a_share_of_the_labels():
    votes = torch.tensor([[0, 1, 1], [2, -1, -1]])
    predicted = torch.tensor([[1, 2], [0, 0]])
    assert hits_of(predicted, votes[:, 0], votes).tolist() == [
        [pytest.approx(2 / 3), 1],
        [pytest.approx(1 / 3), 0],
    ]
    assert hits_of(predicted[0], votes[:, 0], None).tolist() == [False, True]


class TestNoise:
    data = voted(noisy_clouds(800)).train

    def test_the_rate_is_that_of_all_labels_and_training_sees_that_of_majority_votes(self):
        noise = noise_of(self.data)
        is_vote = self.data.votes >= 0
        wrong = (self.data.votes != self.data.true_labels[:, None])[is_vote].double().mean()
        of_majority = (self.data.labels != self.data.true_labels).double().mean().item()
        low, high = noise.estimate.interval
        assert low <= wrong <= high
        assert high - low < 0.2
        assert noise.rate == pytest.approx(of_majority, abs=0.08)
        assert noise.rate < noise.estimate.noise_rate
        torch.testing.assert_close(noise.transition.sum(0), torch.ones(4).double())
        rates = noise.annotators.error_rates
        torch.testing.assert_close(rates, torch.tensor(list(ERRORS.values())).double(),
                                   atol=0.06, rtol=0)  # fmt: skip

    def test_the_record_has_everything_but_the_consensus(self, tmp_path):
        noise = noise_of(self.data)
        stored = TypeAdapter(StoredNoise)
        again = stored.validate_json(stored.dump_json(noise))
        assert noise_record(again) == noise_record(noise)
        assert again.rate == noise.rate
        assert len(again.annotators.consensus) == 0

    def test_few_second_labels_change_nothing(self):
        votes = torch.full((800, 2), -1)
        votes[:, 0] = self.data.labels
        votes[:FEWEST_JUDGED, 1] = self.data.labels[:FEWEST_JUDGED]
        assert noise_of(replace(self.data, votes=votes, annotators=())).annotators is not None
        votes[0, 1] = -1
        data = replace(self.data, votes=votes, annotators=())
        noise = noise_of(data)
        assert noise.annotators is None
        assert noise.rate == noise_of(replace(data, votes=None)).rate
        training = TrainingData.unsplit(data)
        assert RECIPES["consensus"].prepare(training, noise) is training
        network = torch.nn.Linear(6, 4)
        problem = Problem(training, TrainingConfig(), network, Session(OneDevice(), show=False))
        assert "votes" not in problem.recipes("linear")
        problem = replace(problem, data=TrainingData.unsplit(self.data))
        assert "votes" in problem.recipes("linear")

    def test_labels_that_agree_by_chance_replace_no_estimate(self):
        g = torch.Generator().manual_seed(0)
        by_chance = torch.randint(0, 4, (800,), generator=g)
        votes = torch.stack([self.data.labels, by_chance], dim=1)
        noise = noise_of(replace(self.data, votes=votes, annotators=()))
        assert noise.annotators is None
        assert noise.unknown_because is None

    def test_checked_labels_are_right_and_say_nothing_of_annotators(self):
        trusted = torch.arange(800) % 4 == 0
        places, train = torch.arange(800), self.data
        logits = 4 * torch.nn.functional.one_hot(train.true_labels, 4).float()
        found = OutOfFold(logits, train.labels, places, votes=train.votes, is_trusted=trusted)
        noise = EstimatedNoise.of(found)
        rest = train.subset(~trusted)
        alone = EstimatedNoise.of(
            OutOfFold(logits[~trusted], rest.labels, places[: len(rest)], votes=rest.votes)
        )
        assert noise.rate == alone.rate
        assert torch.equal(noise.annotators.counts, alone.annotators.counts)
        assert torch.equal(noise.annotators.consensus[~trusted], alone.annotators.consensus)
        assert torch.equal(noise.annotators.consensus_labels[trusted], train.labels[trusted])


class TestRecipes:
    data = voted(noisy_clouds(800)).train

    def targets(self, name):
        return RECIPES[name].prepare(TrainingData.unsplit(self.data), noise_of(self.data)).train

    def test_votes_are_weighted_by_annotator(self):
        train = self.targets("votes")
        only_ann_against_cy = (self.data.votes[:, 1] < 0) & (self.data.votes >= 0)[:, ::2].all(1)
        differ = only_ann_against_cy & (self.data.votes[:, 0] != self.data.votes[:, 2])
        assert differ.sum() > 20
        chosen = train.targets[differ].gather(1, self.data.votes[differ][:, :1])
        assert (chosen > 0.6).all()
        torch.testing.assert_close(train.targets.sum(1), torch.ones(800))

    def test_the_consensus_knows_more_than_the_majority(self):
        train = self.targets("consensus")
        true = self.data.true_labels
        by_majority = (self.data.labels == true).double().mean()
        assert (train.targets.argmax(1) == true).double().mean() > by_majority + 0.02

    def test_which_are_tried(self):
        names = ("dropped", "replaced", "corrected")
        assert for_labels(names, are_several=False) == names
        assert for_labels(names, are_several=True) == ("dropped", "votes", "consensus")


class TestRuns:
    config = TrainingConfig(learner="linear")

    def test_a_run(self, tmp_path):
        splits = voted(noisy_clouds(400))
        run = train_run(splits, self.config, tmp_path / "run", show=False)
        assert {each.recipe for each in run.recipe.tried} == {
            *("plain", "dropped", "votes", "consensus")
        }
        again = nb.load_run(tmp_path / "run")
        assert again.annotators.equals(run.annotators)
        assert again.annotators["annotator"].to_list() == list(ERRORS)
        assert again.annotators["labels"].sum() < (splits.train.votes >= 0).sum()  # validation
        suspects = again.judgment(splits).suspects
        is_wrong = splits.train.labels != splits.train.true_labels
        first = suspects.ranking[: int(is_wrong.sum())]
        assert is_wrong[first].double().mean() > 0.6
        assert again.expected_wrong(suspects) == pytest.approx(int(is_wrong.sum()), abs=20)

    def test_a_corrected_label_takes_the_place_of_all_votes(self, tmp_path):
        splits = voted(noisy_clouds(200))
        file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
        train = splits.train
        for place, (label, right) in enumerate(
            zip(train.labels[:50].tolist(), train.true_labels.tolist(), strict=False)
        ):
            if label == right:
                file.decide(place, "right")
            else:
                file.decide(place, "wrong", train.class_names[right])
        found = corrected_data(TrainingData.unsplit(train), file).train
        assert ((found.votes[:50] >= 0).sum(1) == 1).all()
        assert torch.equal(found.votes[:50].max(1).values, train.true_labels[:50])
        assert torch.equal(found.votes[50:], train.votes[50:])
        config = self.config.model_copy(update={"recipe": "votes"})
        run = train_run(splits, config, tmp_path / "run", show=False, corrections=file.path)
        assert run.annotators["labels"].sum() <= int((train.votes[50:] >= 0).sum())

    @pytest.mark.parametrize("recipe", ["votes", "consensus"])
    def test_by_name(self, recipe, tmp_path):
        config = self.config.model_copy(update={"recipe": recipe, "learner": "network",
                                                "epochs": 2})  # fmt: skip
        run = train_run(voted(noisy_clouds()), config, tmp_path / "run", show=False)
        assert run.recipe.recipe.name == recipe
        assert run.trained_config.loss == "ce"

    def test_annotators_are_compared_if_the_noise_is_given(self, tmp_path):
        config = TrainingConfig(loss="ce+b", noise_rate=0.1, epochs=2)
        run = train_run(voted(noisy_clouds()), config, tmp_path / "run", show=False)
        assert run.noise.rate == 0.1
        assert nb.load_run(tmp_path / "run").annotators["annotator"].to_list() == list(ERRORS)
        assert "The annotators" in [section.title for section in run_page(run).sections]

    def test_other_data_has_no_annotators(self, tmp_path):
        splits = noisy_clouds()
        config = self.config.model_copy(update={"recipe": "votes"})
        with pytest.raises(InvalidValueError, match="for several labels per example"):
            train_run(splits, config, tmp_path / "run", show=False)
        quick = self.config.model_copy(update={"recipe": "plain"})
        assert train_run(splits, quick, tmp_path / "other", show=False).annotators is None
