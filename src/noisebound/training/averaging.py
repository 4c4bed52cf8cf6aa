"""A running average of the weights, which takes away the jitter of training at a bound."""

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def averaged_copy(model: nn.Module, average_epochs: float, steps_per_epoch: int) -> AveragedModel:
    """An exponential average that remembers about so many epochs.

    Batch norm's running statistics are averaged as the weights are.
    """
    decay = 1 - 1 / max(1.0, average_epochs * steps_per_epoch)
    average = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
    return AveragedModel(model, multi_avg_fn=average, use_buffers=True)
