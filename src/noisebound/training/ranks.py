"""The processes that train together: sums over them, and their end."""

import os
import sys
from collections.abc import Callable

import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor, nn


def sum_over_ranks(values: Tensor, fabric: Fabric) -> Tensor:
    """Return the sum over all ranks, on every rank."""
    total = fabric.all_reduce(values, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def share_buffers(model: nn.Module, fabric: Fabric) -> None:
    """Give every rank the buffers of the first: batch norm sees other examples on each."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)


def first_rank_does(fabric: Fabric, action: Callable[[], None]) -> None:
    """Do something on the first rank while the others wait; if it fails, all ranks fail alike.

    If only the first rank failed, the others would end with a broken connection and its traceback.
    """
    error: Exception | None = None
    if fabric.is_global_zero:
        try:
            action()
        except Exception as raised:
            error = raised
    error = fabric.broadcast(error)
    if error is not None:
        raise error


def is_lost_connection(error: BaseException) -> bool:
    """True if gloo failed because another rank has ended."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error)
    )


def leave_ranks(fabric: Fabric) -> None:
    """End this process, if it is one of several, as soon as all of them are done.

    The interpreter's own shutdown is skipped: gloo's threads aborted it in 4 of 240 runs.
    """
    if fabric.world_size == 1:
        return
    fabric.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
