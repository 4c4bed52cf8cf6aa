"""Confident learning (Northcutt et al., 2021), as cleanlab computes it."""

from importlib.util import find_spec

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.errors import MissingExtraError


def confident_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """Return ``T[noisy, true]``, counted over the examples that are confidently of a class.

    Args:
        probs: out-of-fold probabilities of the noisy label, one row per example
        labels: the observed class indices
    """
    require_cleanlab()
    from cleanlab.count import compute_confident_joint, estimate_latent

    joint = compute_confident_joint(labels.numpy(), probs.numpy())
    _, noise_matrix, _ = estimate_latent(joint, labels.numpy())
    matrix = torch.as_tensor(noise_matrix, dtype=torch.float64)
    # A class that no label names has a column of zeros: it is taken to have no noise.
    return torch.where(matrix.sum(0) > 0, matrix, torch.eye(len(matrix), dtype=torch.float64))


def require_cleanlab() -> None:
    """Raise an error if cleanlab is not installed, before time is spent on what needs it."""
    if find_spec("cleanlab") is None:
        raise MissingExtraError("confident learning", "cleanlab", "cleanlab")
