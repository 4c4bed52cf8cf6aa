"""Out-of-fold predictions: by networks that have not seen the example, cheaply, and only once."""

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from noisebound.data import Dataset
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper, read_out_of_fold
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import (
    CrossFit,
    CrossFitPlan,
    cross_fit_epochs,
    noise_plan,
    plain_config,
)
from noisebound.training.data import TrainingData
from noisebound.training.keeper import NOTHING_KEPT
from training_data import NAMES, noisy_clouds


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4))


class Counting(CrossFit):
    """Counts how many folds it trains, and gives up on one if told to."""

    trained, gives_up_at = 0, 0

    def _fold(self, number, fold):
        self.trained += 1
        if self.trained == self.gives_up_at:
            raise KeyboardInterrupt
        return super()._fold(number, fold)

    def logits(self):
        return self.out_of_fold().logits


def cross_fit(folder=None, identity="mine", train=None, epochs=40, plan=noise_plan):
    data = TrainingData.unsplit(train or noisy_clouds().train)
    config = TrainingConfig(epochs=epochs, batch_size=30, learning_rate=1e-2)
    fabric, keeper = Fabric(devices=1), NOTHING_KEPT
    if folder is not None:
        keeper = FolderKeeper(RunFolder(folder), config, identity, fabric, 0.0)
    return Counting(data, plan(data, config), network(), fabric, keeper=keeper)


def test_no_network_has_seen_what_it_predicts():
    """Random labels can be memorized, and not foreseen."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=generator)
    random = Dataset(torch.randn(400, 6, generator=generator), labels, NAMES)
    predicted = cross_fit(train=random, epochs=400).logits().argmax(1)
    assert (predicted == labels).double().mean() < 0.35


def test_what_can_be_known_is_known():
    train = noisy_clouds(n=800).train
    predicted = cross_fit(train=train).logits().argmax(1)
    assert (predicted == train.true_labels).double().mean() > 0.95


def test_the_network_itself_stays_as_it_was():
    fitting = cross_fit()
    before = {name: value.clone() for name, value in fitting.network.state_dict().items()}
    fitting.logits()
    for name, value in fitting.network.state_dict().items():
        assert torch.equal(value, before[name])


def test_it_costs_less_than_half_of_the_training():
    """Two halves of the examples: an epoch of both is one epoch of all."""
    assert all(cross_fit_epochs(epochs) <= epochs * 3 / 8 for epochs in range(3, 300))
    assert all(cross_fit_epochs(epochs) >= 1 for epochs in range(1, 300))


def test_a_fold_that_is_done_is_not_done_again(tmp_path):
    undisturbed = cross_fit().logits()
    first = cross_fit(tmp_path)
    first.gives_up_at = 2
    with pytest.raises(KeyboardInterrupt):
        first.logits()
    second = cross_fit(tmp_path)
    assert torch.equal(second.logits(), undisturbed)
    assert second.trained == 1
    third = cross_fit(tmp_path)
    assert torch.equal(third.logits(), undisturbed)
    assert third.trained == 0


@pytest.mark.parametrize("spoil", ["other", "damaged"])
def test_what_is_not_to_be_trusted_is_done_again(tmp_path, spoil):
    cross_fit(tmp_path, identity="another" if spoil == "other" else "mine").logits()
    if spoil == "damaged":
        for path in (tmp_path / "cross-fit").iterdir():
            path.write_bytes(path.read_bytes()[:-40])
        assert read_out_of_fold(RunFolder(tmp_path)) is None
    again = cross_fit(tmp_path)
    again.logits()
    assert again.trained == 2


def test_a_flipped_bit_is_noticed(tmp_path):
    cross_fit(tmp_path).logits()
    path = RunFolder(tmp_path).out_of_fold()
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    assert read_out_of_fold(RunFolder(tmp_path)) is None


class TestAnyFolds:
    """The same cross-fitter with five folds, full trainings and the last epoch, as pruning does."""

    def plan(self, data, config):
        config = plain_config(config)
        folds = torch.arange(len(data.train)).tensor_split(5)
        return CrossFitPlan(folds, config, keeps_best_epoch=False)

    def test_every_example_once_and_in_order(self):
        train = noisy_clouds(n=203).train
        found = cross_fit(train=train, epochs=10, plan=self.plan).out_of_fold()
        assert torch.equal(found.labels, train.labels)
        assert torch.equal(found.positions, torch.arange(203))
        predicted = found.logits.argmax(1)
        assert (predicted == train.true_labels).double().mean() > 0.8


class TestUnderfit:
    """Networks that have hardly begun to learn would take their own mistakes for noise."""

    train = noisy_clouds(n=400).train

    def fitted(self, **changes):
        settings = {"epochs": 40, "batch_size": 30, "learning_rate": 1e-2} | changes
        config, fabric = TrainingConfig(**settings), Fabric(devices=1)
        data = TrainingData.unsplit(self.train)
        return CrossFit(data, noise_plan(data, config), network(), fabric).out_of_fold()

    def test_a_rate_too_low_for_the_epochs(self):
        assert self.fitted(learning_rate=1e-4, batch_size=200).is_underfit

    def test_enough(self):
        assert not self.fitted().is_underfit

    def test_it_is_kept(self, tmp_path):
        before = self.fitted(learning_rate=1e-4, batch_size=200)
        folder, config = RunFolder(tmp_path), TrainingConfig()
        keeper = FolderKeeper(folder, config, "mine", Fabric(devices=1), 0.0)
        keeper.keep_out_of_fold("all", before)
        after = keeper.read_out_of_fold("all")
        assert after.is_underfit
        assert torch.equal(after.positions, before.positions)


def test_whether_it_is_still_learning_does_not_depend_on_the_order_of_the_file(monkeypatch):
    """The own examples that are compared with those left out must be of all classes."""
    monkeypatch.setattr("noisebound.training.trial.OWN_EXAMPLES", 40)
    judged = []
    monkeypatch.setattr(
        "noisebound.training.trial.BestEpoch.is_underfit",
        lambda self, logits, labels: bool(judged.append(labels)),
    )
    train = noisy_clouds().train
    data = TrainingData.unsplit(train.subset(train.labels.argsort()))
    config = TrainingConfig(loss="ce", epochs=2)
    CrossFit(data, noise_plan(data, config), network(), Fabric(devices=1), show=False).out_of_fold()
    assert [len(labels) for labels in judged] == [40, 40]
    assert all(len(labels.unique()) == train.num_classes for labels in judged)
