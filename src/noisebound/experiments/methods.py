"""The rows of the paper's tables: fourteen methods, five of them also bounded."""

from collections.abc import Sequence

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
    """The methods as they are spelled here, or an error that lists them."""
    spelled = tuple(method.lower() for method in methods)
    for method in spelled:
        if method not in (*METHODS, *SEARCHED_METHODS):
            raise ValueError(
                f"unknown method {method!r}: choose from {', '.join(METHODS)}, or with a searched "
                f"bound {', '.join(SEARCHED_METHODS)}"
            )
    return spelled
