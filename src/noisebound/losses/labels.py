"""Labels as torch's cross-entropy takes them: class indices, some ignored, or probabilities."""

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor
from torch.nn import functional as F

from noisebound.losses.tracing import is_traced


def check_shapes(
    logits: Float[Tensor, "batch classes *positions"],
    labels: Num[Tensor, "..."],
    num_classes: int | None,
) -> None:
    """Labels must be indices of shape ``[N, d1, …]`` or probabilities of the logits' shape."""
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point, got {logits.dtype}")
    if logits.ndim < 2:
        raise ValueError(
            f"logits must have shape [N, C] or [N, C, d1, …], got {tuple(logits.shape)}; "
            "a single example needs logits.unsqueeze(0)"
        )
    if num_classes is not None and logits.shape[1] != num_classes:
        raise ValueError(
            f"this loss was made for {num_classes} classes, got logits with {logits.shape[1]} "
            f"in dimension 1 (shape {tuple(logits.shape)})"
        )
    if labels.is_floating_point():
        if labels.shape != logits.shape:
            raise ValueError(
                f"labels of type {labels.dtype} are class probabilities and must have the logits' "
                f"shape {tuple(logits.shape)}, got {tuple(labels.shape)}; class indices must be "
                "integers: pass labels.long()"
            )
        return
    if labels.dtype == torch.bool or labels.is_complex():
        raise TypeError(f"labels must be class indices or class probabilities, got {labels.dtype}")
    expected = (logits.shape[0], *logits.shape[2:])
    if labels.shape != expected:
        raise ValueError(
            f"class indices for logits of shape {tuple(logits.shape)} must have shape {expected}, "
            f"got {tuple(labels.shape)}"
        )


def separate_ignored(
    labels: Int[Tensor, "batch *positions"], num_classes: int, ignore_index: int
) -> tuple[Int[Tensor, "batch *positions"], Bool[Tensor, "batch *positions"] | None]:
    """Labels that all lie in range, and which of them count; None if all of them do.

    Out-of-range labels are an error on the CPU. On an accelerator the look would stall the
    stream, and inside a traced function it would break the trace: there, torch's own kernels
    report them.
    """
    labels = labels.long()
    if labels.device.type == "cpu" and not is_traced() and labels.numel():
        least, most = (int(extreme) for extreme in labels.aminmax())
        if least >= 0 and most < num_classes:
            if not 0 <= ignore_index < num_classes:
                return labels, None
        else:
            _check_range(labels, num_classes, ignore_index)
    counts = labels != ignore_index
    return torch.where(counts, labels, 0), counts


def _check_range(labels: Tensor, num_classes: int, ignore_index: int) -> None:
    outside = labels[((labels < 0) | (labels >= num_classes)) & (labels != ignore_index)]
    if outside.numel():
        raise ValueError(
            f"labels must lie in 0 … {num_classes - 1} or be ignore_index={ignore_index}, "
            f"got {int(outside[0])}"
        )


def one_hot(
    labels: Int[Tensor, "batch *positions"], num_classes: int, dtype: torch.dtype
) -> Float[Tensor, "batch classes *positions"]:
    """Class indices as probabilities, classes in dimension 1."""
    return F.one_hot(labels, num_classes).movedim(-1, 1).to(dtype)
