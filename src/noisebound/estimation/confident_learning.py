"""Confident learning (Northcutt et al., 2021), by cleanlab."""

from importlib.util import find_spec

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.errors import InvalidValueError


def confident_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """How labels are distributed among examples that are confidently counted as of a class."""
    require_cleanlab()
    from cleanlab.count import compute_confident_joint, estimate_latent

    joint = compute_confident_joint(labels.numpy(), probs.numpy())
    _, noise_matrix, _ = estimate_latent(joint, labels.numpy())
    matrix = torch.as_tensor(noise_matrix, dtype=torch.float64)
    # nothing is known of a class that no label has: as if it had no noise
    return torch.where(matrix.sum(0) > 0, matrix, torch.eye(len(matrix), dtype=torch.float64))


def require_cleanlab() -> None:
    """Say how to install it, before time is spent on what needs it."""
    if find_spec("cleanlab") is None:
        raise InvalidValueError(
            "this needs cleanlab: install it with  pip install 'noisebound[cleanlab]' , or choose "
            "another method"
        )
