"""Out-of-fold predictions: by networks that have not seen the example, cheaply, and only once."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from noisebound.data import Dataset
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper, read_out_of_fold
from noisebound.search import cross_fit, fit
from noisebound.search.problem import Problem
from noisebound.search.recipes import Candidate
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.session import Session
from training_data import NAMES, noisy_clouds


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4))


class Counting:
    """A cross-fit that counts how many folds it trains, and gives up on one if asked to."""

    def __init__(self, data, config, session):
        self.data, self.trained, self.gives_up_at = data, 0, 0
        self.network = network()
        self.problem = Problem(data, config, self.network, session)

    def out_of_fold(self):
        predict = cross_fit._fold

        def counted(*args):
            self.trained += 1
            if self.trained == self.gives_up_at:
                raise KeyboardInterrupt
            return predict(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cross_fit, "_fold", counted)
            return fit._out_of_fold(self.problem, Candidate("network", "plain"))

    def logits(self):
        return self.out_of_fold().logits


def fitter(folder=None, identity="mine", train=None, **settings):
    data = train if isinstance(train, TrainingData) else None
    data = data or TrainingData.unsplit(train or noisy_clouds().train)
    usual = {"loss": "fce+b", "epochs": 40, "batch_size": 30, "learning_rate": 1e-2}
    config = TrainingConfig(**(usual | settings))
    session = Session(OneDevice("cpu"), show=False)
    if folder is not None:
        folder = RunFolder(folder)
        session.keeper = FolderKeeper(folder, config, identity, session.devices, 0.0)
    return Counting(data, config, session)


class Scripted:
    """A learner with predictions that were written down: the hits of each half, by stage."""

    name, stages = "linear", (1, 2, 3, 4, 5, 6, 7, 8, 9)

    def __init__(self, hits):
        self.hits = hits

    def predict_stages(self, data, others, seed):
        judged, own = others[:2]
        assert all(each.true_labels is None for each in others)
        right = torch.where(self.hits, judged.labels, 1 - judged.labels)
        own_probs = torch.tensor([[0.9, 0.1], [0.1, 0.9]])[own.labels]
        return [
            torch.nn.functional.one_hot(right, 2).float() * 0.8 + 0.1,
            own_probs.expand(len(self.hits), -1, -1),
        ]


def peak(at, stages=9, m=200, seed=0):
    """Half of ``m`` labels predicted at each stage, and nine in ten around one of them."""
    level = torch.rand(m, generator=torch.Generator().manual_seed(seed))
    return torch.stack([level < (0.9 if abs(each - at) < 2 else 0.5) for each in range(stages)])


def scripted(*of_halves):
    """The cross-fit of scripted halves."""
    train = Dataset(torch.zeros(400, 2), torch.arange(400) % 2, ("a", "b"))
    halves = cross_fit.half_folds(train.labels, 0)

    def prepare(half, number):  # the learner of one half predicts the other
        return Scripted(of_halves[1 - number]), half

    return cross_fit.cross_fit(TrainingData.unsplit(train), halves, prepare, 0)


def test_each_half_is_read_where_the_other_stops_best():
    found = scripted(peak(2), peak(2, seed=1))
    assert found.are_hits.double().mean() == pytest.approx(0.9, abs=0.04)
    assert cross_fit.best_stage(found.hits) == 2


def test_a_peak_of_the_judged_half_alone_is_no_evidence():
    """Each half is read at the stage that the other prefers, and not at its own best."""
    found = scripted(peak(1), peak(7, seed=1))
    assert found.are_hits.double().mean() == pytest.approx(0.5, abs=0.06)


def test_halves_are_read_apart_and_joined_in_order():
    found = scripted(peak(2), peak(6, seed=1))
    assert torch.equal(found.positions, torch.arange(400))
    assert torch.equal(found.labels, torch.arange(400) % 2)
    first, second = cross_fit.half_folds(found.labels, 0)
    assert torch.equal(found.are_hits[first], peak(2)[6])
    assert torch.equal(found.are_hits[second], peak(6, seed=1)[2])


def test_no_network_has_seen_what_it_predicts():
    """Random labels can be memorized, and not foreseen."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=generator)
    random = Dataset(torch.randn(400, 6, generator=generator), labels, NAMES)
    predicted = fitter(train=random, epochs=400).logits().argmax(1)
    assert (predicted == labels).double().mean() < 0.35


def test_what_can_be_known_is_known():
    train = noisy_clouds(n=800).train
    predicted = fitter(train=train).logits().argmax(1)
    assert (predicted == train.true_labels).double().mean() > 0.95


def test_the_network_itself_stays_as_it_was():
    counted = fitter()
    before = {name: value.clone() for name, value in counted.network.state_dict().items()}
    counted.logits()
    for name, value in counted.network.state_dict().items():
        assert torch.equal(value, before[name])


def test_it_costs_less_than_half_of_the_training():
    """Two halves of the examples: an epoch of both is one epoch of all."""
    assert all(fit.cross_fit_epochs(epochs) <= epochs * 3 / 8 for epochs in range(3, 300))
    assert all(fit.cross_fit_epochs(epochs) >= 1 for epochs in range(1, 300))


def test_a_cross_fit_that_is_done_is_not_done_again(tmp_path):
    undisturbed = fitter().logits()
    first = fitter(tmp_path)
    first.gives_up_at = 2
    with pytest.raises(KeyboardInterrupt):
        first.logits()
    second = fitter(tmp_path)
    assert torch.equal(second.logits(), undisturbed)
    assert second.trained == 2
    third = fitter(tmp_path)
    assert torch.equal(third.logits(), undisturbed)
    assert third.trained == 0


@pytest.mark.parametrize("spoil", ["other", "damaged"])
def test_what_is_not_to_be_trusted_is_done_again(tmp_path, spoil):
    fitter(tmp_path, identity="another" if spoil == "other" else "mine").logits()
    if spoil == "damaged":
        for path in (tmp_path / "cross-fit").iterdir():
            path.write_bytes(path.read_bytes()[:-40])
        assert read_out_of_fold(RunFolder(tmp_path)) is None
    again = fitter(tmp_path)
    again.logits()
    assert again.trained == 2


def test_a_flipped_bit_is_noticed(tmp_path):
    fitter(tmp_path).logits()
    path = RunFolder(tmp_path).out_of_fold()
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    assert read_out_of_fold(RunFolder(tmp_path)) is None


@pytest.mark.parametrize("n", [203, 204])
def test_two_halves_cover_every_example_once_and_in_order(n):
    train = noisy_clouds(n=n).train
    first, second = cross_fit.half_folds(train.labels, 0)
    assert torch.equal(torch.cat([first, second]).sort().values, torch.arange(n))
    counts = [train.subset(half).class_counts() for half in (first, second)]
    assert (counts[0] - counts[1]).abs().max() <= 1
    counted = fitter(train=train)
    found = counted.out_of_fold()
    assert counted.trained == 2
    assert torch.equal(found.labels, train.labels)
    assert torch.equal(found.positions, torch.arange(n))
    assert (found.logits.argmax(1) == train.true_labels).double().mean() > 0.8


def test_validation_examples_are_predicted_by_networks_in_turn():
    whole = noisy_clouds(n=400).train
    data = replace(
        TrainingData.unsplit(whole.subset(torch.arange(300))),
        validation=whole.subset(torch.arange(300, 400)),
        validation_positions=torch.arange(300, 400),
    )
    found = fitter(train=data).out_of_fold()
    assert torch.equal(found.labels, whole.labels[:300])
    assert torch.equal(found.validation.labels, whole.labels[300:])
    assert torch.equal(found.with_validation.positions, torch.arange(400))
    predicted = found.validation.logits.argmax(1)
    assert (predicted == whole.true_labels[300:]).double().mean() > 0.9


class TestUnderfit:
    """Networks that have hardly begun to learn would take their own mistakes for noise."""

    train = noisy_clouds(n=400).train

    def fitted(self, **changes):
        return fitter(train=self.train, **changes).out_of_fold()

    def test_a_rate_too_low_for_the_epochs(self):
        assert self.fitted(learning_rate=1e-4, batch_size=200).is_underfit

    def test_enough(self):
        assert not self.fitted().is_underfit

    def test_it_is_kept(self, tmp_path):
        before = self.fitted(learning_rate=1e-4, batch_size=200)
        folder, config = RunFolder(tmp_path), TrainingConfig()
        keeper = FolderKeeper(folder, config, "mine", OneDevice("cpu"), 0.0)
        keeper.keep_out_of_fold("all", before)
        after = keeper.read_out_of_fold("all")
        assert after.is_underfit
        assert torch.equal(after.positions, before.positions)


def test_whether_it_is_still_learning_does_not_depend_on_the_order_of_the_file(monkeypatch):
    """The own examples that are compared with those left out must be of all classes."""
    monkeypatch.setattr("noisebound.search.cross_fit.OWN_EXAMPLES", 40)
    judged = []
    monkeypatch.setattr(
        "noisebound.search.cross_fit._Fold.is_underfit",
        property(lambda fold: bool(judged.append(fold.own_labels))),
    )
    train = noisy_clouds().train
    fitter(train=train.subset(train.labels.argsort()), loss="ce", epochs=2).out_of_fold()
    assert [len(labels) for labels in judged] == [40, 40]
    assert all(len(labels.unique()) == train.num_classes for labels in judged)
