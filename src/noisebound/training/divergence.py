"""Divergence: a network that is no longer finite, whatever its loss makes of that."""

import torch
from torch import nn


def is_finite(network: nn.Module) -> bool:
    """True if every parameter is finite and no buffer holds NaN; a mask may hold infinity."""
    checks = [weight.detach().isfinite().all() for weight in network.parameters()]
    checks += [~buffer.isnan().any() for buffer in network.buffers()]
    return not checks or bool(torch.stack(checks).all())
