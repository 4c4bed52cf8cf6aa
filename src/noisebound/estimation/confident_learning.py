"""Confident learning (Northcutt et al., 2021), by cleanlab."""

import torch
from jaxtyping import Float64, Int64
from torch import Tensor


def confident_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """How labels are distributed among examples that are confidently counted as of a class."""
    try:
        from cleanlab.count import compute_confident_joint, estimate_latent
    except ImportError as error:
        raise ValueError(
            "confident learning needs cleanlab: install it with  pip install "
            "'noisebound[cleanlab]' , or choose another method"
        ) from error
    joint = compute_confident_joint(labels.numpy(), probs.numpy())
    _, noise_matrix, _ = estimate_latent(joint, labels.numpy())
    return torch.as_tensor(noise_matrix, dtype=torch.float64)
