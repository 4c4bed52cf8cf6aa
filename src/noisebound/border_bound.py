r"""The floor of masks whose labels are noisier near borders: $\sum_d share(d)\,H(T(d))$.

People draw borders a few pixels off, and rarely confuse what lies inside. One noise rate for all
pixels would put the floor too high, as entropy is concave.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn.functional import max_pool2d

from noisebound.bounds import AnyLoss, entropy, noise_bound, transition_bound
from noisebound.checks import ArrayLike, as_array, check_num_classes, check_transition
from noisebound.errors import InvalidValueError


def border_bound(
    loss: AnyLoss,
    masks: Any,
    noise: Sequence[ArrayLike],
    num_classes: int,
    *,
    ignore_index: int = -100,
) -> float:
    """Return the floor of segmentation masks whose noise depends on the distance to a border.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        masks: class indices ``[n, height, width]``, also memory-mapped, or a list of masks of any
            sizes, as they are observed, with their noise. They show how many pixels lie at each
            distance.
        noise: the noise of pixels that touch another class, also by a corner, of those one pixel
            farther in, and so on; the last is that of all others. Each is a rate or a matrix
            ``T[noisy, true]``.
        num_classes: c, at least two.
        ignore_index: the label of pixels without one.

    Example:
        >>> import noisebound as nb
        >>> mask = torch.zeros(1, 4, 8, dtype=torch.int64)
        >>> mask[..., 4:] = 1  # 8 of 32 pixels touch the border, and 8 are one pixel away
        >>> bound = border_bound(nb.CrossEntropy(), mask, [0.4, 0.4, 0.0], num_classes=2)
        >>> round(bound / nb.noise_bound(nb.CrossEntropy(), 0.4, 2), 4)
        0.5
    """
    num_classes = check_num_classes(num_classes)
    entropy(loss, torch.full((num_classes,), 1 / num_classes))  # refuses class weights
    if len(noise) == 0 or len(masks) == 0:
        raise InvalidValueError("`noise` and `masks` must not be empty: pass a rate and a mask")
    counts = torch.zeros(len(noise), num_classes, dtype=torch.float64)
    for place in range(len(masks)):
        mask = torch.from_numpy(as_array(masks[place]).astype(np.int64))
        is_labeled = mask != ignore_index
        labeled = mask[is_labeled]
        if mask.ndim != 2 or bool(((labeled < 0) | (labeled >= num_classes)).any()):
            raise InvalidValueError(
                f"`masks` must have shape [height, width] each, with classes 0 … {num_classes - 1} "
                f"or {ignore_index}; mask {place} does not"
            )
        cells = _distances(mask, is_labeled, len(noise))[is_labeled] * num_classes + labeled
        counts += cells.bincount(minlength=counts.numel()).view_as(counts)
    floors = [
        _floor(loss, each, of_distance / of_distance.sum().clamp(min=1), num_classes)
        for each, of_distance in zip(noise, counts, strict=True)
    ]
    return float(counts.sum(1) @ torch.tensor(floors).double() / counts.sum().clamp(min=1))


def _distances(
    mask: Int64[Tensor, "height width"], is_labeled: Tensor, levels: int
) -> Int64[Tensor, "height width"]:
    """Return 0 for pixels that touch another class, 1 for those one farther in, and so on."""

    def highest_around(values: Tensor) -> Tensor:
        return max_pool2d(values[None, None].double(), 3, 1, 1)[0, 0]

    above = highest_around(mask.double().masked_fill(~is_labeled, -torch.inf))
    below = -highest_around((-mask.double()).masked_fill(~is_labeled, -torch.inf))
    near = is_labeled & ((above > mask) | (below < mask))
    distance = torch.full_like(mask, levels - 1)
    for _ in range(levels - 1):
        distance -= near.long()
        near = highest_around(near) > 0
    return distance


def _floor(
    loss: AnyLoss, noise: ArrayLike, shares: Float64[Tensor, " classes"], num_classes: int
) -> float:
    if np.ndim(noise) == 0:
        return noise_bound(loss, float(torch.as_tensor(noise)), num_classes)
    transition = check_transition(noise)
    if len(transition) != num_classes:
        raise InvalidValueError(
            f"each matrix of `noise` must be of {num_classes} classes, got {len(transition)}"
        )
    if shares.sum() == 0:
        return 0.0
    # The shares are those of the observed classes `T π`, and the floor takes the true ones, `π`.
    true = torch.linalg.lstsq(transition.cpu(), shares[:, None]).solution[:, 0].clamp(min=0)
    return transition_bound(loss, transition, true / true.sum() if true.sum() > 0 else shares)
