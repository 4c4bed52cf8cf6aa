"""The one catalogue of losses, and the only place that reads ``"+b"``."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.errors import InvalidValueError
from noisebound.loss_specs import NOISE_FACTS, SPECS, Fact, LossSpec

__all__ = ["LOSS_NAMES", "METHOD_NAMES", "SPECS", "LossName", "LossSpec", "create_loss"]

LOSS_NAMES = tuple(name for name, spec in SPECS.items() if not spec.mixes)
"""The names that :func:`create_loss` knows; each may be followed by ``+b``."""

METHOD_NAMES = tuple(SPECS)
"""The names that a training takes: every loss, and ``mixup``."""

_BOUNDED, _SEARCHED = "+b", "+b*"


@dataclass(frozen=True)
class LossName:
    """A name such as ``"sce+b"``, taken apart.

    Args:
        spec: the loss
        is_bounded: True for ``+b`` and ``+b*``
        is_searched: True for ``+b*``, the paper's B*: a bound searched around the noise-bound
    """

    spec: LossSpec
    is_bounded: bool = False
    is_searched: bool = False

    @classmethod
    def parse(cls, name: str) -> "LossName":
        """Read a name in any spelling of upper and lower case.

        Example:
            >>> LossName.parse("SCE+B").label
            'SCE+B'
        """
        base, plus, suffix = name.lower().partition("+")
        if base not in SPECS or plus + suffix not in ("", _BOUNDED, _SEARCHED):
            raise InvalidValueError(
                f"unknown loss {name!r}: choose one of {', '.join(METHOD_NAMES)}, or add '+b' to "
                "bound it"
            )
        return cls(SPECS[base], bool(plus), plus + suffix == _SEARCHED)

    def __str__(self) -> str:
        return self.spec.name + self._suffix

    @property
    def label(self) -> str:
        """What the paper's tables call it, such as ``SCE+B``."""
        return self.spec.label + self._suffix.upper()

    @property
    def plain(self) -> "LossName":
        """The same loss without its bound."""
        return LossName(self.spec)

    @property
    def bounded(self) -> "LossName":
        """The same loss at its noise-bound."""
        return LossName(self.spec, is_bounded=True)

    @property
    def searched(self) -> "LossName":
        """The same loss at a searched bound."""
        return LossName(self.spec, is_bounded=True, is_searched=True)

    @property
    def needs_noise_rate(self) -> bool:
        """True if the loss or its bound can only be made for a noise rate."""
        return self.is_bounded or "noise_rate" in self.spec.needs

    @property
    def _suffix(self) -> str:
        return _SEARCHED if self.is_searched else _BOUNDED if self.is_bounded else ""


def create_loss(
    name: str,
    *,
    noise_rate: float | None = None,
    num_classes: int | None = None,
    num_samples: int | None = None,
    bound: float | None = None,
) -> nn.Module:
    """Return a loss with the paper's hyperparameters, by the name of its row; ``"+b"`` bounds it.

    What is known of the data may be given whether or not the loss at hand needs it, so that one
    call serves every row. For other hyperparameters make the loss itself.

    Args:
        name: one of :data:`LOSS_NAMES`, or such a name followed by ``+b``.
        noise_rate: the probability that a label is wrong, in ``[0, 1]``.
        num_classes: the number of classes.
        num_samples: size of the training set, for the losses that remember its examples.
        bound: the bound of a ``+b`` loss, if it is not to be the noise-bound.

    Example:
        >>> create_loss("gce")
        GeneralizedCrossEntropy(a=0.4)
        >>> create_loss("sce+b", noise_rate=0.4, num_classes=10).bound > 0
        True
    """
    parsed = LossName.parse(name)
    if parsed.spec.mixes or parsed.is_searched:
        what = "MixUp blends batches" if parsed.spec.mixes else "'+b*' is a search over bounds"
        raise InvalidValueError(
            f"unknown loss {name!r}: {what}, which takes a training; choose one of "
            f"{', '.join(LOSS_NAMES)}, or add '+b' to bound it"
        )
    if bound is not None and not parsed.is_bounded:
        raise InvalidValueError(f"`bound` has no meaning for {name!r}: use '{parsed.bounded}'")
    known = {"noise_rate": noise_rate, "num_classes": num_classes, "num_samples": num_samples}

    def facts(needs: tuple[Fact, ...]) -> dict[str, Any]:
        missing = [need for need in needs if known[need] is None]
        if missing:
            raise InvalidValueError(f"create_loss({name!r}) needs {' and '.join(missing)}")
        return {need: known[need] for need in needs}

    loss = parsed.spec.make(**facts(parsed.spec.needs))
    if not parsed.is_bounded:
        return loss
    if bound is not None:
        return BoundedLoss(loss, bound)
    return NoiseBoundedLoss(loss, **facts(NOISE_FACTS))
