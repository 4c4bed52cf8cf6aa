"""How good a model is on a data set: its mean loss, and how often it is right."""

import math
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.data import Dataset, Loader, Normalization
from noisebound.training.ranks import sum_over_ranks

_BATCH = 1000


@dataclass(frozen=True)
class Evaluation:
    """Shares between 0 and 1; ``top5`` is None where there are no more than five classes.

    ``loss`` is None where it is infinite, which some losses are at a saturated wrong answer.
    """

    loss: float | None
    top1: float
    top5: float | None


@torch.no_grad()
def evaluate(
    model: nn.Module,
    data: Dataset,
    normalization: Normalization,
    criterion: nn.Module,
    fabric: Fabric,
) -> Evaluation:
    """The mean over all examples, each rank taking its share of them."""
    is_divided = len(data) >= fabric.world_size  # else the first rank does it all
    loader = Loader(
        data,
        _BATCH * fabric.world_size,
        normalization=normalization,
        shuffle=False,
        rank=fabric.global_rank if is_divided else 0,
        world_size=fabric.world_size if is_divided else 1,
        device=fabric.device,
    )
    was_training = model.training, criterion.training
    dtype = next(model.parameters()).dtype
    model.eval()
    criterion.eval()
    totals = torch.zeros(4, dtype=torch.float64, device=fabric.device)
    for x, y, _ in loader.epoch(0) if is_divided or fabric.is_global_zero else ():
        logits = model(x.to(dtype))
        totals += torch.stack(
            [
                criterion(logits, y).double() * len(y),
                _hits(logits, y, 1),
                _hits(logits, y, min(5, data.num_classes)),
                torch.tensor(len(y), device=fabric.device),
            ]
        )
    model.train(was_training[0])
    criterion.train(was_training[1])
    loss, top1, top5, count = sum_over_ranks(totals, fabric).tolist()
    mean = loss / count if math.isfinite(loss) else None
    return Evaluation(mean, top1 / count, top5 / count if data.num_classes > 5 else None)


def _hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    return (logits.topk(k, dim=1).indices == labels[:, None]).sum()
