"""Regularized copies: dropout and factors in training, and the network as it was afterwards."""

import copy
import pickle

import pytest
import torch
from torch import nn

from noisebound.errors import InvalidValueError
from noisebound.models import create_model
from noisebound.models.regularized import (
    InputFactors,
    can_be_regularized,
    regularized,
    without_factors,
)


def factors_of(network):
    (found,) = (part for part in network.modules() if isinstance(part, InputFactors))
    return found.values


def test_before_training_it_computes_the_same():
    network, x = create_model("small_mlp", (50,), 3), torch.randn(20, 50)
    copied = regularized(network)
    assert torch.equal(copied.eval()(x), network(x))
    assert torch.equal(network.train()(x), network(x))  # and is itself left as it was


def test_inputs_of_every_layer_are_left_out_in_training_alone():
    copied, seen = regularized(create_model("small_mlp", (50,), 3)), []
    for layer in copied.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    copied.train()(torch.ones(400, 50))
    assert len(seen) == 3
    assert (seen[0] == 0).double().mean().item() == pytest.approx(0.3, abs=0.02)
    seen.clear()
    copied.eval()(torch.ones(400, 50))
    assert (seen[0] == 1).all()


def test_a_network_that_has_dropout_gets_no_more_of_it():
    network = regularized(create_model("mlp_head", (400,), 2)).train()
    seen = []
    network[2].register_forward_hook(lambda _, given, __: seen.append(given[0]))
    network(torch.ones(300, 400))
    assert (seen[0] == 0).double().mean().item() == pytest.approx(0.3, abs=0.02)


def test_a_factor_weakens_or_strengthens_its_input():
    copied = regularized(create_model("mlp", (4,), 2)).eval()
    with torch.no_grad():
        factors_of(copied)[0] = 0
    x = torch.randn(9, 4)
    other = x.clone()
    other[:, 0] += 5
    assert torch.equal(copied(x), copied(other))
    other[:, 1] += 5
    assert not torch.equal(copied(x), copied(other))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_network_without_factors_computes_what_was_learned(dtype):
    network = create_model("mlp", (6,), 3)
    trained = regularized(network).to(dtype)
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.1)
    x, y = torch.randn(30, 6, dtype=dtype), torch.randint(3, (30,))
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(x), y).backward()
        optimizer.step()
    assert (factors_of(trained) != 1).all()
    plain = without_factors(trained.eval(), network)
    torch.testing.assert_close(plain(x), trained(x))
    assert plain.state_dict().keys() == network.state_dict().keys()
    assert not plain.training


def test_another_network_is_returned_as_it_is():
    network = create_model("mlp_head", (4,), 2)
    assert without_factors(network, network) is network


def test_a_network_without_linear_layers():
    with pytest.raises(InvalidValueError, match="without linear layers"):
        regularized(nn.Sequential(nn.Conv2d(1, 3, 8), nn.Flatten()))


def test_a_copy_and_a_pickle_are_regularized_too():
    copied, x = regularized(create_model("mlp", (40,), 2)), torch.randn(9, 40)
    for again in (copy.deepcopy(copied), pickle.loads(pickle.dumps(copied))):
        assert not torch.equal(again.train()(x), again(x))


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("mlp", (4,), True),
        ("small_mlp", (1, 8, 8), True),
        ("mlp_head", (4,), False),  # has dropout
        ("linear", (4,), False),  # has one layer
        ("small_cnn", (1, 8, 8), False),
    ],
)
def test_which_networks_can_be_regularized(name, shape, expected):
    assert can_be_regularized(create_model(name, shape, 3)) == expected
