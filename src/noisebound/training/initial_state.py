"""What a training begins with: a network, its average, a loss and an optimizer."""

import torch
from lightning_fabric import Fabric
from torch import nn

from noisebound.training.averaging import averaged_copy
from noisebound.training.checkpoints import TrainingState
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import Objective


def initial_state(
    network: nn.Module,
    objective: Objective,
    config: TrainingConfig,
    num_examples: int,
    fabric: Fabric,
) -> TrainingState:
    """Before the first step, on the device of this rank.

    Args:
        network: to be trained in place
        objective: the loss and its bound
        config: how to train
        num_examples: to be trained on
        fabric: launched
    """
    with fabric.init_module():  # knows the type of numbers that the precision asks for
        network.to(fabric.device, torch.get_default_dtype())
    averaged = None
    if config.average_epochs:
        steps = -(-num_examples // config.batch_size)
        averaged = averaged_copy(network, config.average_epochs, steps)
    return TrainingState(
        network,
        averaged,
        objective.criterion.to(fabric.device),
        torch.optim.Adam(network.parameters(), weight_decay=config.weight_decay),
    )
