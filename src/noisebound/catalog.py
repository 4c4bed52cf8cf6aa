"""Every row of the paper by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.losses import (
    BackwardCrossEntropy,
    Bootstrapping,
    CrossEntropy,
    Curriculum,
    EarlyLearning,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    Loss,
    MeanAbsoluteError,
    MeanSquaredError,
    NormalizedCrossEntropyMAE,
    PriorCrossEntropy,
    Spherical,
    SymmetricCrossEntropy,
    Truncated,
)


@dataclass(frozen=True)
class _Recipe:
    make: Callable[..., Loss]
    needs: tuple[str, ...] = ()


_RECIPES = {
    "ce": _Recipe(CrossEntropy),
    "fce": _Recipe(ForwardCrossEntropy.symmetric, ("noise_rate", "num_classes")),
    "gce": _Recipe(GeneralizedCrossEntropy),
    "sce": _Recipe(SymmetricCrossEntropy),
    "cep": _Recipe(PriorCrossEntropy, ("noise_rate", "num_classes")),
    "backward": _Recipe(BackwardCrossEntropy.symmetric, ("noise_rate", "num_classes")),
    "mse": _Recipe(MeanSquaredError),
    "mae": _Recipe(MeanAbsoluteError),
    "nce-mae": _Recipe(NormalizedCrossEntropyMAE),
    "spherical": _Recipe(Spherical),
    "bootstrap": _Recipe(Bootstrapping),
    "truncated": _Recipe(Truncated, ("num_samples",)),
    "curriculum": _Recipe(Curriculum, ("noise_rate",)),
    "elr": _Recipe(EarlyLearning, ("num_samples", "num_classes")),
}

LOSS_NAMES = tuple(_RECIPES)
"""The names that :func:`create_loss` knows; each may be followed by ``+b``."""


def needs_noise_rate(name: str) -> bool:
    """Whether a loss, bounded or not, can only be made for a noise rate."""
    base_name, plus, _ = name.lower().partition("+")
    recipe = _RECIPES.get(base_name)
    return bool(plus) or (recipe is not None and "noise_rate" in recipe.needs)


def create_loss(
    name: str,
    *,
    noise_rate: float | None = None,
    num_classes: int | None = None,
    num_samples: int | None = None,
    bound: float | None = None,
) -> nn.Module:
    """A loss with the paper's hyperparameters, by the name of its row; ``"+b"`` bounds it.

    What is known of the data may be given whether or not the loss at hand needs it, so that one
    call serves every row. For other hyperparameters make the loss itself.

    Args:
        name: one of :data:`LOSS_NAMES`, or such a name followed by ``+b``.
        noise_rate: the probability that a label changes.
        num_classes: the number of classes.
        num_samples: size of the training set, for the losses that remember its examples.
        bound: the bound of a ``+b`` loss, if it shall not be the noise-bound.

    Example:
        >>> create_loss("gce")
        GeneralizedCrossEntropy(a=0.4)
        >>> create_loss("sce+b", noise_rate=0.4, num_classes=10).bound > 0
        True
    """
    base_name, plus, suffix = name.lower().partition("+")
    if base_name not in _RECIPES or (plus and suffix != "b"):
        raise ValueError(
            f"unknown loss {name!r}: choose one of {', '.join(LOSS_NAMES)}, or add '+b' to bound it"
        )
    if bound is not None and not plus:
        raise ValueError(f"bound has no meaning for {name!r}: use '{name}+b'")
    known = {"noise_rate": noise_rate, "num_classes": num_classes, "num_samples": num_samples}

    def facts(needs: tuple[str, ...]) -> dict[str, Any]:
        missing = [need for need in needs if known[need] is None]
        if missing:
            raise ValueError(f"create_loss({name!r}) needs {' and '.join(missing)}")
        return {need: known[need] for need in needs}

    recipe = _RECIPES[base_name]
    loss = recipe.make(**facts(recipe.needs))
    if not plus:
        return loss
    if bound is not None:
        return BoundedLoss(loss, bound)
    return NoiseBoundedLoss(loss, **facts(("noise_rate", "num_classes")))
