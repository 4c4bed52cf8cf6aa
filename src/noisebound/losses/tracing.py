"""Tell whether a compiler or a function transform is tracing the loss."""

import torch


def is_traced() -> bool:
    """True under ``torch.compile`` and ``torch.func``, where values cannot be read."""
    return torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()
