"""The rows of the paper's tables: fourteen methods, five of them also bounded."""

from collections.abc import Callable, Sequence

from noisebound.catalog import SPECS, LossName
from noisebound.errors import InvalidValueError

BASELINES = tuple(name for name, spec in SPECS.items() if spec.table_role == "baseline")
BOUNDED = tuple(name for name, spec in SPECS.items() if spec.table_role == "bounded")
"""The losses that the paper's tables show without and with their bound."""

METHODS = (*BASELINES, *(name + suffix for name in BOUNDED for suffix in ("", "+b")))
"""Every row that a table has by default, in the paper's order."""

SEARCHED_METHODS = tuple(str(LossName.parse(name).searched) for name in BOUNDED)
"""The rows whose bound is searched around the noise-bound: the paper's B*."""


def label_of(method: str) -> str:
    """Return what the paper's tables call a method.

    Example:
        >>> label_of("sce+b*")
        'SCE+B*'
    """
    return LossName.parse(method).label


def check_methods(methods: Sequence[str]) -> tuple[str, ...]:
    """Return the methods in lower case, each once, or raise an error that lists them."""
    spelled = tuple(dict.fromkeys(method.lower() for method in methods))
    for method in spelled:
        if method not in (*METHODS, *SEARCHED_METHODS):
            raise InvalidValueError(
                f"unknown method {method!r}: choose from {', '.join(METHODS)}, or with a searched "
                f"bound {', '.join(SEARCHED_METHODS)}"
            )
    if not spelled:
        raise InvalidValueError("name at least one method")
    return spelled


def check_bounded(methods: Sequence[str], form: Callable[[LossName], LossName]) -> tuple[str, ...]:
    """Return bounded methods in one form, whichever form they were named in.

    Args:
        methods: names of the five losses that have a bound, with or without ``+b``
        form: the form, such as ``lambda name: name.searched``
    """
    losses = tuple(dict.fromkeys(method.lower().partition("+")[0] for method in methods))
    for loss in losses:
        if loss not in BOUNDED:
            raise InvalidValueError(f"{loss!r} has no bound here: choose from {', '.join(BOUNDED)}")
    if not losses:
        raise InvalidValueError("name at least one method")
    return tuple(str(form(LossName.parse(loss))) for loss in losses)
