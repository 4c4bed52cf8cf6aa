"""The one catalogue of losses: a :class:`LossSpec` each, and the only place that reads ``"+b"``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import nn

from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.errors import InvalidValueError
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

Fact: TypeAlias = Literal["noise_rate", "num_classes", "num_samples"]
"""What a loss may have to know of the data before it can be made."""

_NOISE: tuple[Fact, ...] = ("noise_rate", "num_classes")


@dataclass(frozen=True)
class LossSpec:
    """All that the rest of the library has to know of a loss.

    Args:
        name: what :func:`create_loss` and the command line call it
        label: what the paper's tables call it
        title: its name in words
        formula: ``L(q, y)`` for people, with ``u`` the noise vector and ``r = η/(c-1)``
        floor: the formula of its noise-bound for people; None for a loss that has none
        make: makes the loss from the facts in ``needs``
        needs: what it takes to make the loss
        from_transition: makes the loss from a matrix ``T[noisy, true]``, where it corrects noise
        table_role: what the paper's tables show: a loss ``"bounded"`` and not, or a ``"baseline"``
        learning_rate: the paper's, where it differs from that of all other losses
        mixes: True for MixUp, which is CE on blended batches and no loss of its own
    """

    name: str
    label: str
    title: str
    formula: str
    floor: str | None
    make: Callable[..., Loss]
    needs: tuple[Fact, ...] = ()
    from_transition: Callable[[Any], Loss] | None = None
    table_role: Literal["bounded", "baseline"] | None = None
    learning_rate: float | None = None
    mixes: bool = False


SPECS = {
    spec.name: spec
    for spec in (
        LossSpec(
            "ce",
            "CE",
            "cross-entropy",
            "-log q_y",
            "H(u)",
            CrossEntropy,
            table_role="bounded",
        ),
        LossSpec(
            "fce",
            "FCE",
            "forward-corrected cross-entropy",
            "-log (T q)_y",
            "H(u)",
            ForwardCrossEntropy.symmetric,
            _NOISE,
            from_transition=ForwardCrossEntropy,
            table_role="bounded",
        ),
        LossSpec(
            "gce",
            "GCE",
            "generalized cross-entropy",
            "(1 - q_y^a) / a",
            "through f⁻¹(u) ∝ u^(1/(1-a))",
            GeneralizedCrossEntropy,
            table_role="bounded",
        ),
        LossSpec(
            "sce",
            "SCE",
            "symmetric cross-entropy",
            "-log q_y + A (1 - q_y)",
            "through f⁻¹(u) = u / (λ - A u)",
            SymmetricCrossEntropy,
            table_role="bounded",
        ),
        LossSpec(
            "cep",
            "CEP",
            "cross-entropy with a prior",
            "-log q_y - Σ_i u_i log q_σ(i), σ sorting downwards",
            "2 H(u)",
            PriorCrossEntropy,
            _NOISE,
            table_role="bounded",
        ),
        LossSpec(
            "backward",
            "Backward CE",
            "backward correction",
            "Σ_k T⁻¹[k, y] (-log q_k)",
            "clean entropy",
            BackwardCrossEntropy.symmetric,
            _NOISE,
            from_transition=BackwardCrossEntropy,
        ),
        LossSpec(
            "mse",
            "MSE",
            "mean squared error",
            "Σ_k (q_k - 1[k=y])²",
            "1 - Σ u²",
            MeanSquaredError,
            table_role="baseline",
        ),
        LossSpec(
            "mae",
            "MAE",
            "mean absolute error",
            "1 - q_y",
            "η",
            MeanAbsoluteError,
            table_role="baseline",
            learning_rate=1e-3,
        ),
        LossSpec(
            "nce-mae",
            "NCE-MAE",
            "normalized cross-entropy and MAE",
            "log q_y / Σ_k log q_k + 1 - q_y",
            "r + η",
            NormalizedCrossEntropyMAE,
            table_role="baseline",
        ),
        LossSpec(
            "mixup",
            "MixUp",
            "cross-entropy on blended examples",
            "-Σ_k p_k log q_k, p a blend of two labels",
            None,
            CrossEntropy,
            table_role="baseline",
            mixes=True,
        ),
        LossSpec(
            "spherical",
            "Spherical",
            "spherical score",
            "-q_y / ‖q‖₂",
            "-‖u‖₂",
            Spherical,
            table_role="baseline",
        ),
        LossSpec(
            "bootstrap",
            "Bootstrap",
            "soft bootstrapping",
            "-Σ_k (β 1[k=y] + (1-β) q_k) log q_k",
            "searched",
            Bootstrapping,
            table_role="baseline",
        ),
        LossSpec(
            "truncated",
            "Truncated",
            "truncated GCE",
            "v_i (GCE - GCE at k)",
            None,
            Truncated,
            ("num_samples",),
            table_role="baseline",
        ),
        LossSpec(
            "curriculum",
            "Curriculum",
            "noise-pruned curriculum",
            "CE of the easiest examples",
            None,
            Curriculum,
            ("noise_rate",),
            table_role="baseline",
        ),
        LossSpec(
            "elr",
            "ELR",
            "early-learning regularization",
            "-log q_y + λ log(1 - <t, q>)",
            None,
            EarlyLearning,
            ("num_samples", "num_classes"),
            table_role="baseline",
            learning_rate=1e-2,
        ),
    )
}

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
    return NoiseBoundedLoss(loss, **facts(_NOISE))
