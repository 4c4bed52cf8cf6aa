"""Training on checked labels: trusted, weighted, not bounded against, never suspects again."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.errors import DataError
from noisebound.estimation import EstimatedNoise, GivenRate, OutOfFold
from noisebound.estimation.estimated_noise import Checked, noise_of_unchecked
from noisebound.learners import Network
from noisebound.pages.page import to_html
from noisebound.pages.run_page import run_page
from noisebound.review import DecisionFile, ReviewedData
from noisebound.runs import load_run, train_run
from noisebound.runs.corrections import corrected_data
from noisebound.search.choice import Choice
from noisebound.search.confirmation import confirmed
from noisebound.search.fit import fit_network, plan_training
from noisebound.search.problem import Problem, network_for
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData, split_validation, validation_mask
from noisebound.training.objective import make_objective
from noisebound.training.session import Session
from noisebound.training.trusted_labels import best_weight, trusting


def checked_of(is_trusted, given=None, stands_for=None):
    n = len(is_trusted)
    return Checked(
        torch.tensor(is_trusted),
        torch.zeros(n, dtype=torch.long) if given is None else given,
        torch.zeros(n, dtype=torch.float64) if stands_for is None else stands_for,
    )


class TestFloor:
    """The floor of the mean is the untrusted share's part of the others' floor."""

    @pytest.mark.parametrize("loss", ["ce+b", "gce+b", "sce+b", "fce+b", "cep+b"])
    @pytest.mark.parametrize("weights", [None, torch.tensor([5.0, 1.0, 1.0, 5.0, 2.0])])
    def test_of_the_mean(self, loss, weights):
        config = TrainingConfig(loss=loss, noise_rate=0.3)
        noise = GivenRate(0.3, 4)
        plain = make_objective(config, 4, 5, noise)
        checked = checked_of([True, False, False, True, False])
        found = trusting(plain, checked, weights, config)
        share = 3 / 5 if weights is None else (1 + 1 + 2) / 14
        assert found.bound == pytest.approx(share * plain.bound, rel=1e-12)
        assert found.floor == found.bound

    @pytest.mark.parametrize("loss", ["ce+b", "fce+b"])
    def test_an_honest_model_reaches_it_exactly(self, loss):
        """Of each class: labels in the shares of T, each with weight 1, and a checked one of 3."""
        noise, config = GivenRate(0.3, 2), TrainingConfig(loss=loss, noise_rate=0.3)
        labels = torch.tensor([0] * 7 + [1] * 3 + [0])
        checked = checked_of([False] * 10 + [True])
        weights = torch.tensor([1.0] * 10 + [3.0])
        objective = trusting(make_objective(config, 2, 11, noise), checked, weights, config)
        sure = torch.tensor([[40.0, -40.0]]).double()
        # Cross-entropy learns the observed label; the forward correction learns the true class.
        honest = torch.tensor([[0.7, 0.3]]).double().log() if loss == "ce+b" else sure
        logits = torch.cat([honest.expand(10, 2), sure])
        mean = objective.mean(logits, labels, weights, torch.arange(11))
        assert mean.item() == pytest.approx(objective.bound, rel=1e-9)

    def test_a_given_bound_stays(self):
        config = TrainingConfig(loss="ce+b", bound=0.5)
        plain = make_objective(config, 4, 2, GivenRate(0.3, 4))
        assert trusting(plain, checked_of([True, False]), None, config).bound == 0.5

    def test_a_correcting_loss_does_not_correct_right_labels(self):
        config = TrainingConfig(loss="fce", noise_rate=0.3)
        checked = checked_of([True, True])
        objective = trusting(make_objective(config, 2, 2, GivenRate(0.3, 2)), checked, None, config)
        logits, labels = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        mean = objective.mean(logits, labels, None, torch.arange(2))
        torch.testing.assert_close(mean, F.cross_entropy(logits, labels))


class TestWeight:
    def test_is_the_one_that_predicts_checked_labels_best(self):
        labels = torch.zeros(400, dtype=torch.long)
        trusted = torch.arange(400) < 200

        def predictions(strength):
            logits = torch.stack([torch.full((400,), strength), torch.zeros(400)], 1)
            logits[::4] *= -0.5  # a quarter is predicted wrongly
            return OutOfFold(logits, labels, torch.arange(400), is_trusted=trusted)

        assert best_weight({1.0: predictions(0.2), 5.0: predictions(1.0)}) == 5.0
        assert best_weight({weight: predictions(1.0) for weight in (1.0, 5.0)}) == 1.0

    def test_chance_does_not_decide(self):
        """One weight predicts 162 of 200 labels, the other 160 with a lower loss."""

        def predictions(hits, margin):
            logits = torch.zeros(200, 2)
            logits[:, 0] = torch.where(torch.arange(200) < hits, 2.0, margin)
            labels = torch.zeros(200, dtype=torch.long)
            trusted = torch.ones(200, dtype=torch.bool)
            return OutOfFold(logits, labels, torch.arange(200), is_trusted=trusted)

        ahead = predictions(160, -1.0)
        assert best_weight({1.0: predictions(162, -1.1), 10.0: ahead}) == 1.0
        assert best_weight({1.0: predictions(162, -3.0), 10.0: ahead}) == 10.0


def test_audited_labels_tell_the_rate_of_those_nobody_checked():
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(4000) % 2
    given = torch.where(torch.rand(4000, generator=generator) < 0.3, 1 - true, true)
    is_trusted = torch.zeros(4000, dtype=torch.bool)
    is_trusted[:1000] = True  # drawn at random, as the order is
    labels = torch.where(is_trusted, true, given)
    logits = 0.1 * F.one_hot(given, 2).float()  # unrelated to the truth
    found = OutOfFold(logits, labels, torch.arange(4000), is_trusted=is_trusted)
    checked = Checked(is_trusted, given, is_trusted.double())
    noise = noise_of_unchecked(EstimatedNoise.of(found), checked)
    actual = (given != true)[1000:].double().mean().item()
    assert noise.rate == pytest.approx(actual, abs=0.05)
    low, high = noise.interval
    assert low < actual < high


def test_trusted_labels_are_neither_doubted_nor_blended():
    labels = torch.tensor([0, 1] * 100)
    labels[0] = 1  # looks wrong
    logits = 4 * F.one_hot(torch.tensor([0, 1] * 100), 2).float()
    found = OutOfFold(logits, labels, torch.arange(200))
    assert EstimatedNoise.of(found).is_doubted[0]
    trusted = torch.arange(200) == 0
    noise = EstimatedNoise.of(replace(found, is_trusted=trusted))
    assert not noise.is_doubted[0]
    assert noise.true_probabilities[0].tolist() == [0, 1]


def test_every_checked_label_is_trained_on(tmp_path):
    train = Dataset(torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 0, 1, 0, 1]), ("a", "b"))
    splits = Splits("made", train, None, source="made")
    config = TrainingConfig(validation_share=1 / 3)
    held_out = validation_mask(train, config).nonzero().flatten().tolist()
    others = [place for place in range(6) if place not in held_out]
    file = DecisionFile(tmp_path / "d.jsonl", ReviewedData(train))
    other = {"a": "b", "b": "a"}
    corrected, unusable, confirmed = held_out[0], others[1], others[2]
    file.decide(corrected, "wrong", other[file.data.given(corrected)], where="audit", stands_for=2)
    file.decide(unusable, "unusable")
    file.decide(confirmed, "right")
    data, _ = split_validation(splits, config, file.with_verdict("right", "wrong", "unusable"))
    found = corrected_data(data, file)
    assert found.validation_positions.tolist() == held_out[1:]
    kept = sorted({*range(6)} - {held_out[1], unusable})
    assert found.positions.tolist() == kept
    place = kept.index(corrected)
    assert found.train.labels[place] == 1 - train.labels[corrected]
    assert found.checked.given.tolist() == train.labels[kept].tolist()
    assert found.checked.is_trusted.tolist() == [each in (corrected, confirmed) for each in kept]
    assert found.checked.stands_for.tolist() == [2.0 * (each == corrected) for each in kept]


@pytest.fixture(scope="module")
def noisy():
    generator = torch.Generator().manual_seed(1)
    true = torch.arange(600) % 3
    centers = 1.5 * torch.eye(3, 6)
    inputs = centers[true] + torch.randn(600, 6, generator=generator)
    labels = nb.corrupt(true, "pairwise", 0.35, 3, generator=generator).labels
    train = Dataset(inputs, labels, ("a", "b", "c"), true_labels=true)
    test = Dataset(centers[true] + torch.randn(600, 6, generator=generator), true, ("a", "b", "c"))
    return Splits("clouds", train, test, source="made")


def test_from_a_run_to_decisions_to_a_better_run(noisy, tmp_path):
    config = TrainingConfig(
        loss="ce+b",
        noise_rate=0.35,
        model="linear",
        epochs=12,
        batch_size=50,
        learning_rate=0.03,
    )
    first = train_run(noisy, config, tmp_path / "first", show=False)
    true, names = noisy.train.true_labels, noisy.train.class_names
    queue = first.review_queue()
    for suspect in queue.next(200):
        first.decide(suspect.position, names[int(true[suspect.position])])
    first.decide(queue.next(1)[0].position, None)
    again = train_run(
        noisy, config, tmp_path / "second", corrections=first.folder.decisions, show=False
    )
    checks = again.result.checks
    assert checks.unusable == 1
    assert checks.trusted == 200  # those of the validation split included
    held_out = validation_mask(noisy.train, config)
    assert any(held_out[each.position] for each in first.decisions)
    assert checks.changed == sum(each.verdict == "wrong" for each in first.decisions)
    assert f"201 examples were checked: {checks.changed} labels corrected" in checks.words
    assert checks.weight in (1, 2, 5, 10)
    assert checks.before["test_top1"] == pytest.approx(first.final("test_top1"))
    assert checks.after["test_top1"] == again.final("test_top1")
    unchecked = held_out & ~first.decisions.with_verdict(
        "right", "wrong", "unusable"
    )  # the same labels for both models
    probs = first.saved_model.probabilities(noisy.train.subset(unchecked).rows)
    agreed = (probs.argmax(1) == noisy.train.labels[unchecked]).double().mean()
    assert checks.before["validation_top1"] == pytest.approx(agreed.item())
    assert checks.after["validation_top1"] == again.final("validation_top1")
    assert again.final("test_top1") >= first.final("test_top1")
    assert "checked labels have the floor 0" in again.result.chosen.reason
    decided = [each.position for each in first.decisions if each.is_trusted]
    second = load_run(again.path)
    suspects = second.judgment(noisy).suspects
    assert suspects.probability[decided].max() < 1e-8
    assert len(second.decisions_about(noisy)) == 201  # where the next review goes on
    page = to_html(run_page(again, noisy, None))
    assert "Before and after" in page


def test_decisions_about_other_data_do_not_train(noisy, tmp_path):
    file = DecisionFile(tmp_path / "d.jsonl", ReviewedData.of(noisy))
    file.decide(0, "right")
    half = replace(noisy, train=noisy.train.subset(torch.arange(300)))
    config = TrainingConfig(loss="fce+b", model="linear", epochs=1)
    with pytest.raises(DataError, match="600 examples, and this data has 300"):
        train_run(half, config, tmp_path / "run", corrections=file.path)
    with pytest.raises(DataError, match="does not exist: nobody has decided anything"):
        train_run(noisy, config, tmp_path / "run", corrections=tmp_path / "nowhere.jsonl")
    with pytest.raises(DataError, match="not a file of decisions"):
        train_run(noisy, config, tmp_path / "run", corrections=tmp_path)


def checked_data(n, count):
    """Two clouds with noisy labels, some of which were checked."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(n, 4, generator=generator)
    true = (inputs[:, 0] > 0).long()
    given = nb.corrupt(true, "symmetric", 0.2, 2, generator=generator).labels
    is_trusted = torch.randperm(n, generator=generator) < count
    train = Dataset(inputs, torch.where(is_trusted, true, given), ("a", "b"))
    checked = Checked(is_trusted, given, torch.zeros(n, dtype=torch.float64))
    return replace(TrainingData.unsplit(train), positions=torch.arange(n), checked=checked)


@pytest.mark.filterwarnings("ignore:training as if there were no noise")
@pytest.mark.parametrize("settings", [{"recipe": "auto"}, {"loss": "ce+b"}])
def test_nearly_all_labels_are_checked(settings):
    """The few that are left say nothing of their noise."""
    data, config = checked_data(100, 65), TrainingConfig(epochs=2, model="linear", **settings)
    network, session = network_for(data.train, config), Session(show=False)
    assert fit_network(Problem(data, config, network, session)).history[-1].train_loss > 0


def test_trials_and_full_trainings_know_the_checked_labels_as_the_training_does(monkeypatch):
    bounds, predict_stages = [], Network.predict_stages

    def noted(learner, *args):
        if learner.config.loss == "ce+b":
            bounds.append(learner.objective.bound)
        return predict_stages(learner, *args)

    monkeypatch.setattr(Network, "predict_stages", noted)
    data = checked_data(400, 200)
    config = TrainingConfig(epochs=4, model="linear", recipe="auto", average_epochs=0)
    problem = Problem(data, config, network_for(data.train, config), Session(show=False))
    plan = plan_training(problem)
    evidence = replace(plan.choice.chosen, recipe="ce+b", epochs=4)
    confirmed(replace(problem, data=plan.whole), Choice((evidence,), (evidence,)), plan.noise)
    whole = plan.noise.bound(nb.CrossEntropy()).level
    share = data.checked.untrusted_share(plan.whole.train.weights)
    assert share <= 0.5
    assert bounds[-1] == pytest.approx(share * whole)  # checked labels have the floor 0
    assert len(bounds) > 2
    assert max(bounds) < 0.8 * whole
