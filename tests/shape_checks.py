"""Check the shapes in signatures; ``conftest.py`` has jaxtyping apply this to the library.

Only shapes are checked. Other types are left to mypy: some tests pass wrong ones to see the
library's own error, and beartype can check neither polars' types nor plain protocols.
"""

from typing import get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

# A data set refuses wrong shapes itself, with errors that tests expect.
_REFUSES_ITSELF = ("noisebound.data.dataset",)

# Like mypy, beartype then accepts an int for a float.
_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_shapes(signature):
    """Make a function check those of its annotations that name a shape.

    Args:
        signature: an empty function with the signature of the one to check, made by jaxtyping.
    """
    if signature.__module__ in _REFUSES_ITSELF:
        return signature
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
