"""Labels as in torch's cross-entropy: class indices, some of them ignored, or probabilities."""

from typing import NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.errors import InvalidTypeError, InvalidValueError


def is_traced() -> bool:
    """True under ``torch.compile`` and ``torch.func``, where values cannot be read."""
    return torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()


def check_shapes(logits: Tensor, labels: Tensor, num_classes: int | None) -> None:
    """Refuse labels that are neither class indices nor probabilities for these logits."""
    shape = logits.shape
    soft = labels.is_floating_point()
    fits = labels.shape == (shape if soft else shape[:1] + shape[2:])
    right_types = logits.is_floating_point() and labels.dtype not in _NOT_LABELS
    right_classes = num_classes is None or shape[1:2] == (num_classes,)
    # This runs with every batch, so the reason is looked for only after a mismatch.
    if not (fits and right_types and right_classes and len(shape) > 1):
        _explain_mismatch(logits, labels, num_classes)


_NOT_LABELS = frozenset({torch.bool, torch.complex32, torch.complex64, torch.complex128})


def _explain_mismatch(logits: Tensor, labels: Tensor, num_classes: int | None) -> NoReturn:
    shape, given = tuple(logits.shape), tuple(labels.shape)
    if not logits.is_floating_point():
        raise InvalidTypeError(f"`logits` must be floating point, got {logits.dtype}")
    if labels.dtype in _NOT_LABELS:
        raise InvalidTypeError(
            f"`labels` must be class indices or class probabilities, got {labels.dtype}"
        )
    if len(shape) < 2:
        raise InvalidValueError(
            f"`logits` must have shape [N, C] or [N, C, d1, …], got {shape}; "
            "for a single example pass logits.unsqueeze(0)"
        )
    if num_classes is not None and shape[1] != num_classes:
        raise InvalidValueError(
            f"this loss was made for {num_classes} classes, got logits with {shape[1]} "
            f"in dimension 1 (shape {shape})"
        )
    if labels.is_floating_point():
        raise InvalidValueError(
            f"`labels` of type {labels.dtype} are class probabilities and must have the shape of "
            f"the logits, {shape}, got {given}; for class indices pass labels.long()"
        )
    raise InvalidValueError(
        f"`labels` that are class indices for logits of shape {shape} must have shape "
        f"{shape[:1] + shape[2:]}, got {given}"
    )


def kernels_check(labels: Int[Tensor, "batch *positions"]) -> bool:
    """True if torch itself refuses labels out of range, with an error that can be caught.

    On the CPU it does, so that checking the labels first would only cost time. On an accelerator
    the whole process would fail, and a traced function cannot depend on an error.
    """
    return labels.is_cpu and not is_traced()


def refuse_out_of_range(
    labels: Int[Tensor, "batch *positions"], num_classes: int, ignore_index: int
) -> None:
    """Refuse labels that are neither in range nor ``ignore_index``."""
    outside = labels[((labels < 0) | (labels >= num_classes)) & (labels != ignore_index)]
    if outside.numel():
        raise InvalidValueError(
            f"`labels` must lie in 0 … {num_classes - 1} or be ignore_index={ignore_index}, "
            f"got {int(outside[0])}"
        )


def one_hot(
    labels: Int[Tensor, "batch *positions"], num_classes: int, dtype: torch.dtype
) -> Float[Tensor, "batch classes *positions"]:
    """Return class indices as probabilities, with the classes in dimension 1."""
    return F.one_hot(labels, num_classes).movedim(-1, 1).to(dtype)
