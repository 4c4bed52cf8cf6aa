"""Divergence: a network that is no longer finite, whatever its loss makes of that."""

import torch
from torch import nn


def is_finite(network: nn.Module) -> bool:
    """True if every parameter is finite and no buffer holds NaN; a mask may hold infinity."""
    # A sum is as finite as what it is of, and found in less time: this is asked after every epoch.
    sums = [weight.detach().sum(dtype=torch.float64) for weight in network.parameters()]
    checks = [total.isfinite() for total in sums]
    checks += [~buffer.isnan().any() for buffer in network.buffers()]
    return not checks or bool(torch.stack(checks).all())
