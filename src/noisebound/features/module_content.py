"""What a module of the user's own computes by: its weights, its settings and its code."""

import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noisebound.features.content import hash_of_weights
from noisebound.system.files import fingerprint

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))  # hooks, and the weights themselves
_PLAIN = (str, bytes, bool, int, float, complex, torch.dtype, torch.device, type(None))


def hash_of_module(module: nn.Module, *settings: object) -> str:
    """Return a hash that changes with the weights, the settings or the code of a module.

    Settings are attributes that are plain values, tensors, functions, or containers of these. Of
    any other object only the type counts, because its description may differ between processes.

    Args:
        module: the module, whose layers count too
        settings: what else its vectors depend on
    """
    digest = hashlib.sha256(f"{module} {settings}".encode())
    digest.update(hash_of_weights(module.state_dict()).encode())
    for name, layer in module.named_modules():
        own = {key: value for key, value in vars(layer).items() if key not in _OF_EVERY_MODULE}
        digest.update(f"{name} {_described(own)}".encode())
    for kind in sorted({type(layer) for layer in module.modules()}, key=str):
        digest.update(f"{kind} {list(_methods(kind))}".encode())
    return digest.hexdigest()


def _described(value: Any) -> str:
    """Return words that are the same in every process, and others for another value."""
    match value:
        case Tensor():
            return fingerprint(value.detach().cpu())
        case np.ndarray() if value.dtype.kind in "biufc":
            return fingerprint(torch.from_numpy(np.ascontiguousarray(value)))
        case Mapping():
            return str([(_described(key), _described(each)) for key, each in value.items()])
        case set() | frozenset():
            return str(sorted(map(_described, value)))
        case list() | tuple():
            return str([_described(each) for each in value])
        case nn.Module():  # out of the sight of `named_modules`, in a list
            return hash_of_weights(value.state_dict())
    code = getattr(value, "__code__", None)
    if code is not None:
        return str(_of_code(code))
    return repr(value) if isinstance(value, _PLAIN) else str(type(value))


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a class and of those that it extends, each with what it does."""
    for base in kind.__mro__:
        if base in (nn.Module, object):
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            code = getattr(function, "__code__", None)
            if code is not None:
                yield name, _of_code(code)


def _of_code(code: CodeType) -> tuple[Any, ...]:
    constants = [
        _of_code(each) if isinstance(each, CodeType) else _described(each)
        for each in code.co_consts
    ]
    return code.co_code, code.co_names, constants
