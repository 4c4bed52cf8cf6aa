"""MixUp (Zhang et al., 2018): examples and labels are blended in pairs."""

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor
from torch.nn import functional as F


def mix_up(
    x: Float[Tensor, "batch ..."],
    y: Int64[Tensor, " batch"],
    num_classes: int,
    generator: Generator,
) -> tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch classes"]]:
    """Return ``λ x + (1-λ) x'`` and labels blended alike, ``λ`` uniform in ``[0, 1]``.

    There is one ``λ`` per batch, and the partners are the same examples in another order.
    """
    share = torch.rand((), generator=generator).item()
    partner = torch.randperm(len(y), generator=generator).to(x.device)
    targets = F.one_hot(y, num_classes).to(x.dtype)
    return torch.lerp(x[partner], x, share), torch.lerp(targets[partner], targets, share)
