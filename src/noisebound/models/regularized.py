"""Dropout and a learned factor for each input, for networks of linear layers that have neither.

A multilayer perceptron on a table learns from all features alike, and memorizes by those that tell
nothing. Dropout and factors that grow and shrink quickly leave it those that tell something. The
factor of an input is a factor of its weights, so that the trained network can do without it.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noisebound.errors import InvalidValueError
from noisebound.models.dropout import USUAL_DROPOUT, QuickDropout

FACTOR_RATE = 30.0
"""The factors' learning rate, as a multiple of the other weights': chosen on the planted table
``wide``, where 10 was four points behind without dropout."""

_FACTORS = "input_factors"


class InputFactors(nn.Module):
    """A factor for each input of a layer.

    Args:
        weight: the layer's weights, which tell the number of inputs and the kind of numbers
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.ones_like(weight[0]))

    def forward(self, inputs: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch inputs"]:
        """Return the inputs times their factors."""
        return inputs * self.values


def can_be_regularized(network: nn.Module) -> bool:
    """True if a network consists of several linear layers, and has no dropout yet."""
    layers = _linear_layers(network)
    weights = sum(weight.numel() for layer in layers for weight in layer.parameters())
    return (
        len(layers) > 1
        and weights == sum(weight.numel() for weight in network.parameters())
        and not _has_dropout(network)
    )


def regularized(network: nn.Module) -> nn.Module:
    """Return a copy of a network with dropout before each linear layer, and factors of its inputs.

    A network that has dropout keeps what it has.

    Args:
        network: a network with linear layers
    """
    network = copy.deepcopy(network)
    layers = _linear_layers(network)
    if not layers:
        raise InvalidValueError(
            "a network without linear layers cannot be regularized: choose another `recipe`"
        )
    layers[0].add_module(_FACTORS, InputFactors(layers[0].weight.detach()))
    layers[0].register_forward_pre_hook(_multiply)
    for layer in layers if not _has_dropout(network) else ():
        layer.register_forward_pre_hook(_LeaveOut(USUAL_DROPOUT))
    return network


def without_factors(trained: nn.Module, network: nn.Module) -> nn.Module:
    """Return a network that computes what the regularized copy of it has learned.

    Args:
        trained: what :func:`regularized` returned, after training; another network is returned as
            it is
        network: the network that it is a copy of
    """
    weights = trained.state_dict()
    names = [name for name in weights if name.endswith(f"{_FACTORS}.values")]
    if not names:
        return trained
    for name in names:
        factors = weights.pop(name)
        weight = name.replace(f"{_FACTORS}.values", "weight")
        weights[weight] = weights[weight] * factors
    network = copy.deepcopy(network).to(factors.device, factors.dtype)
    network.load_state_dict(weights)
    return network.train(trained.training)


def _linear_layers(network: nn.Module) -> list[nn.Linear]:
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)]


def _has_dropout(network: nn.Module) -> bool:
    return any(isinstance(layer, nn.Dropout) for layer in network.modules())


def _multiply(layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(map(layer.get_submodule(_FACTORS), inputs))


class _LeaveOut:
    """Called with the inputs of a layer: returns them with some of them left out, in training."""

    def __init__(self, probability: float) -> None:
        self.dropout = QuickDropout(probability)

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(map(self.dropout, inputs)) if layer.training else inputs
