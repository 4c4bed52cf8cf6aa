"""Check the shapes in signatures; ``conftest.py`` has jaxtyping apply this to the library.

Only shapes are checked. Other types are left to mypy: some tests pass wrong ones to see the
library's own error, and beartype can check neither polars' types nor plain protocols.
"""

import functools
from dataclasses import is_dataclass
from typing import get_args

import jaxtyping
import numpy as np
import torch
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

# A data set refuses wrong shapes itself, with errors that tests expect.
_REFUSES_ITSELF = ("noisebound.data.dataset",)

# Like mypy, beartype then accepts an int for a float.
_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


_jaxtyped = jaxtyping.jaxtyped


def jaxtyped_where_shaped(*, typechecker):
    """Return jaxtyping's decorator, which leaves whatever names no shape as it is.

    jaxtyping itself decorates every function, and binds its arguments in each call, although most
    functions have nothing to check.
    """
    decorate = _jaxtyped(typechecker=typechecker)

    def decorate_where_shaped(target):
        if not _is_checked(target):
            return target
        return decorate(target) if isinstance(target, type) else _once_per_shape(target, decorate)

    return decorate_where_shaped


def _once_per_shape(target, decorate):
    """Check a function's arguments and result only where no call had the same shapes and types.

    A check takes a tenth of a millisecond, which would be a third of the time of a small training.
    """
    checked = decorate(target)
    passed = {}

    @functools.wraps(target)
    def call(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable:
            return target(*args, **kwargs)
        given = _shapes(args), _shapes(kwargs)
        if given not in passed:
            result = checked(*args, **kwargs)
            passed[given] = {_shapes(result)}
            return result
        result = target(*args, **kwargs)
        if (found := _shapes(result)) not in passed[given]:
            decorate(functools.wraps(target)(lambda *_, **__: result))(*args, **kwargs)
            passed[given].add(found)
        return result

    return call


def _shapes(value):
    """Return all that a check of shapes depends on; two values alike in it both pass or fail."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return type(value), value.dtype, tuple(value.shape)
    if isinstance(value, tuple | list):
        return type(value), *map(_shapes, value)
    if isinstance(value, dict):
        return dict, *((key, _shapes(each)) for key, each in value.items())
    return value if isinstance(value, str) else type(value)


def _is_checked(target):
    """True if a function or a data class names a shape, or names types that are not known yet."""
    if target.__module__ in _REFUSES_ITSELF:
        return False
    if isinstance(target, type):
        return is_dataclass(target) and _is_checked(target.__init__)
    annotations = target.__annotations__.values()
    return any(isinstance(each, str) or _names_shape(each) for each in annotations)


def check_shapes(signature):
    """Make a function check those of its annotations that name a shape.

    Args:
        signature: an empty function with the signature of the one to check, made by jaxtyping.
    """
    signature.__annotations__ = {
        name: annotation
        for name, annotation in signature.__annotations__.items()
        if _names_shape(annotation)
    }
    # beartype takes its time even where it has nothing to check.
    return _beartype(signature) if signature.__annotations__ else signature


def _names_shape(annotation):
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        return True
    return any(map(_names_shape, get_args(annotation)))
