"""Held-out predictions: by networks that have not seen the example, cheaply, and only once."""

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from noisebound.data import Dataset, Normalization
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import CrossFit, cross_fit_epochs
from noisebound.training.held_out import HeldOut
from noisebound.training.loop import TrainingData
from training_data import NAMES, noisy_clouds


def data_of(train):
    return TrainingData(train, None, None, Normalization.of(train.inputs))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4))


class Counting(CrossFit):
    """Counts how many halves it trains, and gives up on one if told to."""

    trained, gives_up_at = 0, 0

    def _half(self, is_held_out, title):
        self.trained += 1
        if self.trained == self.gives_up_at:
            raise KeyboardInterrupt
        return super()._half(is_held_out, title)

    def logits(self):
        return self.held_out().logits


def cross_fit(folder=None, identity="mine", train=None, epochs=40):
    train = train or noisy_clouds().train
    config = TrainingConfig(epochs=epochs, batch_size=30, learning_rate=1e-2)
    return Counting(
        data_of(train), config, network(), Fabric(devices=1), folder=folder, identity=identity
    )


def test_no_network_has_seen_what_it_predicts():
    """Random labels can be learnt by heart, and not foreseen."""
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


def test_a_half_that_is_done_is_not_done_again(tmp_path):
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
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes()[:-40])
        assert HeldOut.read(tmp_path / "both.safetensors") is None
    again = cross_fit(tmp_path)
    again.logits()
    assert again.trained == 2


def test_too_few_examples():
    with pytest.raises(ValueError, match=r"19 training examples are too few .*--noise-rate"):
        cross_fit(train=noisy_clouds().train.subset(torch.arange(19)))


class TestUnderfit:
    """Networks that have hardly begun to learn would take their own mistakes for noise."""

    train = noisy_clouds(n=400).train

    def fitted(self, **changes):
        settings = {"epochs": 40, "batch_size": 30, "learning_rate": 1e-2} | changes
        config, fabric = TrainingConfig(**settings), Fabric(devices=1)
        return CrossFit(data_of(self.train), config, network(), fabric).held_out()

    def test_a_rate_too_low_for_the_epochs(self):
        assert self.fitted(learning_rate=1e-4, batch_size=200).is_underfit

    def test_enough(self):
        assert not self.fitted().is_underfit

    def test_it_is_kept(self, tmp_path):
        before = self.fitted(learning_rate=1e-4, batch_size=200)
        before.save(tmp_path / "x.safetensors", "mine")
        after = HeldOut.read(tmp_path / "x.safetensors", "mine")
        assert after.is_underfit
        assert torch.equal(after.positions, before.positions)
