"""The rows of the paper's tables: fourteen methods, five of them also bounded."""

from collections.abc import Sequence

from noisebound.errors import InvalidValueError

BASELINES = {
    "mse": "MSE",
    "mae": "MAE",
    "nce-mae": "NCE-MAE",
    "mixup": "MixUp",
    "spherical": "Spherical",
    "bootstrap": "Bootstrap",
    "truncated": "Truncated",
    "curriculum": "Curriculum",
    "elr": "ELR",
}
BOUNDED = {"ce": "CE", "fce": "FCE", "gce": "GCE", "sce": "SCE", "cep": "CEP"}

SEARCHED = "+b*"  # the bound is searched around the noise-bound: the paper's B*

METHODS = (*BASELINES, *(name + suffix for name in BOUNDED for suffix in ("", "+b")))
"""Every row that a table has of itself, in the paper's order."""

SEARCHED_METHODS = tuple(f"{name}{SEARCHED}" for name in BOUNDED)


def label_of(method: str) -> str:
    """What the paper's tables call a method.

    Example:
        >>> label_of("sce+b*")
        'SCE+B*'
    """
    name, _, suffix = method.partition("+")
    return (BASELINES | BOUNDED)[name] + (f"+{suffix.upper()}" if suffix else "")


def check_methods(methods: Sequence[str]) -> tuple[str, ...]:
    """The methods as they are spelled here, each once, or an error that lists them."""
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


def check_bounded(methods: Sequence[str], suffix: str) -> tuple[str, ...]:
    """The five losses that have a bound, by their names with or without ``+b``; each with it."""
    losses = tuple(dict.fromkeys(method.lower().partition("+")[0] for method in methods))
    for loss in losses:
        if loss not in BOUNDED:
            raise InvalidValueError(f"{loss!r} has no bound here: choose from {', '.join(BOUNDED)}")
    if not losses:
        raise InvalidValueError("name at least one method")
    return tuple(loss + suffix for loss in losses)
