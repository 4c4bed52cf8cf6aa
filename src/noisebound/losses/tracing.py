"""Whether a loss runs for its values, or to be written down by a compiler or a transform."""

import torch


def is_traced() -> bool:
    """True under ``torch.compile`` and ``torch.func``, where values cannot be looked at."""
    return torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()
