"""Check the shapes in signatures; ``conftest.py`` has jaxtyping apply this to the library.

Only shapes are checked. Other types are left to mypy: some tests pass wrong ones to see the
library's own error, and beartype can check neither polars' types nor plain protocols.
"""

from dataclasses import is_dataclass
from typing import get_args

import jaxtyping
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
    return lambda target: decorate(target) if _is_checked(target) else target


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
