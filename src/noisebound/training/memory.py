"""What a loss remembers of each example, when the examples are divided over ranks."""

import torch
from torch import Tensor, nn

from noisebound.data import Loader
from noisebound.losses import RememberingLoss, Truncated
from noisebound.training.devices import Devices, sum_over_ranks


def share_memory(loss: nn.Module, visited: Tensor, devices: Devices) -> None:
    """Give every rank what the others have noted about the examples that only they saw.

    Each example is visited by just one rank. So the sum over the ranks of what each noted, with
    zeros elsewhere, is exactly what one process would have noted.
    """
    if devices.world_size == 1 or not isinstance(loss, RememberingLoss):
        return
    visited = visited.to(devices.device)
    for buffer in loss.buffers():
        noted = torch.zeros_like(buffer, dtype=torch.float32)
        noted[visited] = buffer[visited].to(noted.dtype)
        buffer.copy_(sum_over_ranks(noted, devices))


@torch.no_grad()
def prune(loss: nn.Module, model: nn.Module, loader: Loader, epoch: int) -> Tensor | None:
    """Let Truncated choose the examples to keep, if it is due; return those this rank looked at."""
    if not isinstance(loss, Truncated) or not loss.prunes_at(epoch + 1):
        return None
    model.eval()
    visited = []
    for batch in loader.epoch(epoch):
        loss.choose(model(batch.x), batch.y, batch.indices)
        visited.append(batch.indices)
    model.train()
    return torch.cat(visited)
