"""Algorithm 1, written the naive way, gives the weights that the training loop gives."""

import copy

import pytest
import torch
from torch import nn

import noisebound as nb
from noisebound.data import Dataset, Loader, Splits
from noisebound.estimation import GivenRate
from noisebound.training import TrainingConfig
from noisebound.training.data import split_validation
from noisebound.training.devices import OneDevice
from noisebound.training.loop import Training
from noisebound.training.objective import make_objective
from noisebound.training.state import initial_state

EPOCHS = 4


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    inputs = torch.randn(60, 5, generator=generator) + nn.functional.one_hot(labels, 5)
    splits = Splits("clouds", Dataset(inputs, labels, ("a", "b", "c")), None, "made here")
    found, _ = split_validation(splits, TrainingConfig(validation_share=0.0))
    return found


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Linear(5, 3)


def config_of(**changes):
    fields = {"loss": "ce+b", "noise_rate": 0.3, "epochs": EPOCHS, "batch_size": 20}
    fields |= {"learning_rate": 0.1, "average_epochs": 0.0, "validation_share": 0.0}
    return TrainingConfig(**(fields | changes))


def trained(network, data, config):
    network = copy.deepcopy(network)
    objective = make_objective(config, 3, len(data.train), GivenRate(config.given_rate, 3))
    state = initial_state(network, objective, config, len(data.train), OneDevice("cpu"))
    training = Training(state, objective, data, config, OneDevice("cpu"))
    return state, list(training.epochs())


def algorithm_1(network, data, config):
    """Return the weights, and how many steps went uphill in each epoch."""
    network, level = copy.deepcopy(network), nb.noise_bound(nb.CrossEntropy(), 0.3, 3)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    loader = Loader(data.train, config.batch_size, normalization=data.normalization)
    uphill = []
    for epoch in range(config.epochs):
        below = []
        for batch in loader.epoch(epoch):
            optimizer.zero_grad()
            mean = nn.functional.cross_entropy(network(batch.x), batch.y)
            (mean - level).abs().backward()
            optimizer.step()
            below.append(bool(mean < level))
        uphill.append(sum(below) / len(below))
    return network.state_dict(), uphill


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_naive_loop(network, data, micro_batches):
    config = config_of(accumulate=micro_batches)
    state, history = trained(network, data, config)
    weights, uphill = algorithm_1(network, data, config)
    torch.testing.assert_close(dict(state.model.state_dict()), dict(weights))
    assert [metrics.share_below for metrics in history] == pytest.approx(uphill)
    assert 0 < sum(uphill) < EPOCHS  # both kinds of steps were taken


def test_without_a_bound_every_step_descends(network, data):
    _, history = trained(network, data, config_of(loss="ce"))
    assert [metrics.share_below for metrics in history] == [None] * EPOCHS
    losses = [metrics.train_loss for metrics in history]
    assert losses == sorted(losses, reverse=True)


def test_a_training_goes_on_where_its_state_stands(network, data):
    config = config_of()
    half, _ = trained(network, data, config.model_copy(update={"epochs": EPOCHS // 2}))
    objective = make_objective(config, 3, len(data.train), GivenRate(0.3, 3))
    rest = list(Training(half, objective, data, config, OneDevice("cpu")).epochs())
    whole, history = trained(network, data, config)
    assert [metrics.epoch for metrics in rest] == [3, 4]
    assert [m.train_loss for m in rest] == [m.train_loss for m in history[2:]]
    for name, weight in whole.tensors().items():
        assert torch.equal(weight, half.tensors()[name]), name


def test_the_state_holds_all_that_training_changes(network, data):
    state, _ = trained(network, data, config_of(average_epochs=1.0))
    names = state.tensors()
    assert {"model.weight", "averaged.module.weight", "optimizer.0.exp_avg"} <= set(names)
    assert state.epoch == EPOCHS
    assert state.best_model is not state.model


def test_weights_are_averaged_over_the_last_epochs(network, data):
    config = config_of(average_epochs=1.0)
    state, _ = trained(network, data, config)
    plain, _ = trained(network, data, config_of())
    assert torch.equal(state.model.weight, plain.model.weight)  # averaging changes no step
    assert not torch.equal(state.best_model.weight, plain.model.weight)


def test_the_learning_rate_rises_and_drops(network, data):
    config = config_of(warmup_epochs=1.0, drop_epoch=2, drop_factor=0.5)
    state, history = trained(network, data, config)
    assert [metrics.learning_rate for metrics in history] == [0.1, 0.1, 0.05, 0.05]
    assert state.optimizer.param_groups[0]["lr"] == 0.05
