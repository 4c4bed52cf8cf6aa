"""Out-of-fold predictions: by networks that have not seen the example, cheaply, and only once."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from noisebound.data import Dataset
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper, read_out_of_fold
from noisebound.search import cross_fit
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

    def __init__(self, data, plan, session):
        self.data, self.plan, self.session = data, plan, session
        self.network, self.trained, self.gives_up_at = network(), 0, 0

    def out_of_fold(self):
        predict = cross_fit._predict_fold

        def counted(*args):
            self.trained += 1
            if self.trained == self.gives_up_at:
                raise KeyboardInterrupt
            return predict(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cross_fit, "_predict_fold", counted)
            return cross_fit.cross_fit(self.data, self.plan, self.network, self.session)

    def logits(self):
        return self.out_of_fold().logits


def fitter(folder=None, identity="mine", train=None, epochs=40):
    data = TrainingData.unsplit(train or noisy_clouds().train)
    config = TrainingConfig(loss="fce+b", epochs=epochs, batch_size=30, learning_rate=1e-2)
    session = Session(OneDevice("cpu"))
    if folder is not None:
        folder = RunFolder(folder)
        session.keeper = FolderKeeper(folder, config, identity, session.devices, 0.0)
    return Counting(data, cross_fit.noise_plan(data, config), session)


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
    assert all(cross_fit.cross_fit_epochs(epochs) <= epochs * 3 / 8 for epochs in range(3, 300))
    assert all(cross_fit.cross_fit_epochs(epochs) >= 1 for epochs in range(1, 300))


def test_a_fold_that_is_done_is_not_done_again(tmp_path):
    undisturbed = fitter().logits()
    first = fitter(tmp_path)
    first.gives_up_at = 2
    with pytest.raises(KeyboardInterrupt):
        first.logits()
    second = fitter(tmp_path)
    assert torch.equal(second.logits(), undisturbed)
    assert second.trained == 1
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


def test_any_number_of_folds_covers_every_example_once_and_in_order():
    train = noisy_clouds(n=203).train
    counted = fitter(train=train)
    order = torch.randperm(203, generator=torch.Generator().manual_seed(0))
    counted.plan = replace(counted.plan, folds=order.tensor_split(5))
    found = counted.out_of_fold()
    assert counted.trained == 5
    assert torch.equal(found.labels, train.labels)
    assert torch.equal(found.positions, torch.arange(203))
    assert (found.logits.argmax(1) == train.true_labels).double().mean() > 0.8


def test_validation_examples_are_predicted_by_networks_in_turn():
    whole = noisy_clouds(n=400).train
    counted = fitter(train=whole.subset(torch.arange(300)))
    counted.data = replace(
        counted.data,
        validation=whole.subset(torch.arange(300, 400)),
        validation_positions=torch.arange(300, 400),
    )
    found = counted.out_of_fold()
    assert torch.equal(found.labels, whole.labels[:300])
    assert torch.equal(found.validation.labels, whole.labels[300:])
    assert torch.equal(found.with_validation.positions, torch.arange(400))
    predicted = found.validation.logits.argmax(1)
    assert (predicted == whole.true_labels[300:]).double().mean() > 0.9


class TestUnderfit:
    """Networks that have hardly begun to learn would take their own mistakes for noise."""

    train = noisy_clouds(n=400).train

    def fitted(self, **changes):
        settings = {"epochs": 40, "batch_size": 30, "learning_rate": 1e-2} | changes
        config, data = TrainingConfig(**settings), TrainingData.unsplit(self.train)
        plan = cross_fit.noise_plan(data, config)
        return cross_fit.cross_fit(data, plan, network(), Session())

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
    monkeypatch.setattr("noisebound.search.trial.OWN_EXAMPLES", 40)
    judged = []
    monkeypatch.setattr(
        "noisebound.search.trial.BestEpoch.is_underfit",
        lambda self, logits, labels: bool(judged.append(labels)),
    )
    train = noisy_clouds().train
    data = TrainingData.unsplit(train.subset(train.labels.argsort()))
    config = TrainingConfig(loss="ce", epochs=2)
    plan = cross_fit.noise_plan(data, config)
    cross_fit.cross_fit(data, plan, network(), Session(show=False))
    assert [len(labels) for labels in judged] == [40, 40]
    assert all(len(labels.unique()) == train.num_classes for labels in judged)
