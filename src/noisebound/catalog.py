"""The one catalog of losses, and the only place that reads ``"+b"``.

``catalog.csv`` has the names, titles, formulas and classes: ``u`` is the noise vector, and
``r = η/(c-1)``.
"""

import csv
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

from torch import nn

from noisebound import losses
from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.errors import InvalidValueError

Fact: TypeAlias = Literal["noise_rate", "num_samples", "num_classes"]
"""A fact about the data that some losses need."""


@dataclass(frozen=True)
class LossSpec:
    """A loss by name, and its description in commands, tables and pages."""

    name: str  # in `create_loss` and on the command line
    label: str  # in the paper's tables
    title: str
    formula: str  # ``L(q, y)`` as text
    has_floor: bool  # False if it depends on a memory or on the rest of the batch
    make: Callable[..., losses.Loss]  # arguments without a default are facts about the data
    from_transition: Callable[[Any], losses.Loss] | None = None  # from ``T[noisy, true]``
    table_role: Literal["bounded", "baseline"] | None = None  # bounded: with and without a bound
    learning_rate: float | None = None  # the paper's, if it has another for this loss

    @property
    def mixes(self) -> bool:
        """True for MixUp, which is CE on blended batches."""
        return self.name == "mixup"

    @property
    def needs(self) -> tuple[Fact, ...]:
        """The facts that the loss depends on."""
        arguments = inspect.signature(self.make).parameters
        required = [name for name, each in arguments.items() if each.default is each.empty]
        return tuple(fact for fact in get_args(Fact) if fact in required)


def _nce() -> losses.Normalized:
    return losses.Normalized(losses.CrossEntropy())


def _nfl() -> losses.Normalized:
    return losses.Normalized(losses.Focal(gamma=0.5))  # the γ of Ma et al.


# The weights and parameters of the sums are those that Ma et al. (2020) and Zhou et al. (2021) use
# for CIFAR-10.
_COMPOSED: Mapping[str, Callable[..., losses.Loss]] = {
    "nce": _nce,
    "nfl": _nfl,
    "nce-rce": lambda: losses.ActivePassive(_nce(), losses.ReverseCrossEntropy()),
    "nfl-mae": lambda: losses.ActivePassive(_nfl(), losses.MeanAbsoluteError()),
    "nfl-rce": lambda: losses.ActivePassive(_nfl(), losses.ReverseCrossEntropy()),
    "nce-agce": lambda: losses.ActivePassive(
        _nce(), losses.AsymmetricGeneralizedCrossEntropy(a=6, q=1.5), beta=4
    ),
    "nce-aul": lambda: losses.ActivePassive(
        _nce(), losses.AsymmetricUnhinged(a=6.3, p=1.5), beta=4
    ),
    "nce-ael": lambda: losses.ActivePassive(_nce(), losses.AsymmetricExponential(a=5), beta=4),
    "nls": lambda: losses.LabelSmoothing(smoothing=-0.4),
}


def _spec(row: dict[str, Any]) -> LossSpec:
    # A correction takes a matrix; its attribute `symmetric` takes a noise rate.
    kind, _, is_symmetric = row["class"].partition(".")
    return LossSpec(
        **{name: row[name] for name in ("name", "label", "title", "formula")},
        has_floor=row["has_floor"] == "yes",
        make=_COMPOSED.get(row["name"]) or attrgetter(row["class"])(losses),
        from_transition=getattr(losses, kind) if is_symmetric else None,
        table_role=row["table_role"] or None,
        learning_rate=float(row["learning_rate"]) if row["learning_rate"] else None,
    )


_ROWS = files("noisebound").joinpath("catalog.csv").read_text("utf-8").splitlines()
SPECS = {row["name"]: _spec(row) for row in csv.DictReader(_ROWS)}
"""Every loss by its name, and MixUp."""

LOSS_NAMES = tuple(name for name, spec in SPECS.items() if not spec.mixes)
"""The names that :func:`create_loss` knows; each may be followed by ``+b``."""

METHOD_NAMES = tuple(SPECS)
"""The names that a training takes: every loss, and ``mixup``."""


@dataclass(frozen=True)
class LossName:
    """A name such as ``"sce+b"``, taken apart."""

    spec: LossSpec
    suffix: str = ""  # "+b" at the noise-bound, "+b*" at a bound that is searched around it

    @classmethod
    def parse(cls, name: str) -> "LossName":
        """Read a name in any spelling of upper and lower case.

        Example:
            >>> LossName.parse("SCE+B").label
            'SCE+B'
        """
        base, plus, suffix = name.lower().partition("+")
        if base not in SPECS or plus + suffix not in ("", "+b", "+b*"):
            raise InvalidValueError(
                f"unknown loss {name!r}: choose one of {', '.join(METHOD_NAMES)}, or add '+b' to "
                "bound it"
            )
        return cls(SPECS[base], plus + suffix)

    def __str__(self) -> str:
        return self.spec.name + self.suffix

    @property
    def label(self) -> str:
        """Its name in the paper's tables, such as ``SCE+B``."""
        return self.spec.label + self.suffix.upper()

    @property
    def is_bounded(self) -> bool:
        return bool(self.suffix)

    @property
    def is_searched(self) -> bool:
        return self.suffix == "+b*"

    @property
    def plain(self) -> "LossName":
        """The same loss without its bound."""
        return LossName(self.spec)

    @property
    def bounded(self) -> "LossName":
        """The same loss at its noise-bound."""
        return LossName(self.spec, "+b")

    @property
    def needs_noise_rate(self) -> bool:
        """True if the loss or its bound can only be made for a noise rate."""
        return self.is_bounded or "noise_rate" in self.spec.needs


def create_loss(
    name: str,
    *,
    noise_rate: float | None = None,
    num_classes: int | None = None,
    num_samples: int | None = None,
    bound: float | None = None,
) -> nn.Module:
    """Return a loss with the paper's hyperparameters, by the name of its row; ``"+b"`` bounds it.

    Facts that a loss does not need are ignored, so that one call serves every row. For other
    hyperparameters create the loss by its class.

    Args:
        name: one of :data:`LOSS_NAMES`, or such a name followed by ``+b``.
        noise_rate: the probability that a label is wrong, in ``[0, 1]``.
        num_classes: the number of classes.
        num_samples: size of the training set, for losses that remember its examples.
        bound: the bound of a ``+b`` loss; the noise-bound by default.

    Example:
        >>> create_loss("gce")
        GeneralizedCrossEntropy(a=0.4)
        >>> create_loss("sce+b", noise_rate=0.4, num_classes=10).bound > 0
        True
    """
    parsed = LossName.parse(name)
    if parsed.spec.mixes or parsed.is_searched:
        raise InvalidValueError(
            f"unknown loss {name!r}: MixUp and '+b*' take a training; choose one of "
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
    return NoiseBoundedLoss(loss, **facts(("noise_rate", "num_classes")))
