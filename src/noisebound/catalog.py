"""The one catalog of losses, and the only place that reads ``"+b"``."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from torch import nn

from noisebound import losses
from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.errors import InvalidValueError

Fact: TypeAlias = Literal["noise_rate", "num_samples", "num_classes"]
"""A fact about the data that some losses need."""

_NOISE_FACTS: tuple[Fact, ...] = ("noise_rate", "num_classes")


@dataclass(frozen=True)
class LossSpec:
    """A loss by name, and what commands, tables and pages show of it.

    Args:
        name: its name in :func:`create_loss` and on the command line
        label: its name in the paper's tables
        title: its full name
        formula: ``L(q, y)`` as text, with ``u`` the noise vector and ``r = η/(c-1)``
        floor: the formula of its noise-bound as text; None for a loss without a bound
        make: makes the loss; its arguments without a default are facts about the data
        from_transition: makes the loss from a matrix ``T[noisy, true]``, if it corrects noise
        table_role: ``"bounded"`` if the paper's tables show it with and without a bound
        learning_rate: the paper's, if it differs from that of the other losses
        mixes: True for MixUp, which is CE on blended batches
    """

    name: str
    label: str
    title: str
    formula: str
    floor: str | None
    make: Callable[..., losses.Loss]
    from_transition: Callable[[Any], losses.Loss] | None = None
    table_role: Literal["bounded", "baseline"] | None = None
    learning_rate: float | None = None
    mixes: bool = False

    @property
    def needs(self) -> tuple[Fact, ...]:
        """The facts that the loss depends on."""
        arguments = inspect.signature(self.make).parameters
        required = [name for name, each in arguments.items() if each.default is each.empty]
        return tuple(fact for fact in get_args(Fact) if fact in required)


class _Options(TypedDict, total=False):
    from_transition: Callable[[Any], losses.Loss]
    table_role: Literal["bounded", "baseline"]
    learning_rate: float
    mixes: bool


def _spec(
    names: tuple[str, str, str],
    formulas: tuple[str, str | None],
    make: Callable[..., losses.Loss],
    **options: Unpack[_Options],
) -> LossSpec:
    """Return the spec of ``(name, label, title)`` and ``(formula, floor)``: a row of the tables."""
    return LossSpec(*names, *formulas, make, **options)


_OF_THE_PAPER = (
    _spec(
        ("ce", "CE", "cross-entropy"),
        ("-log q_y", "H(u)"),
        losses.CrossEntropy,
        table_role="bounded",
    ),
    _spec(
        ("fce", "FCE", "forward-corrected cross-entropy"),
        ("-log (T q)_y", "H(u)"),
        losses.ForwardCrossEntropy.symmetric,
        from_transition=losses.ForwardCrossEntropy,
        table_role="bounded",
    ),
    _spec(
        ("gce", "GCE", "generalized cross-entropy"),
        ("(1 - q_y^a) / a", "through f⁻¹(u) ∝ u^(1/(1-a))"),
        losses.GeneralizedCrossEntropy,
        table_role="bounded",
    ),
    _spec(
        ("sce", "SCE", "symmetric cross-entropy"),
        ("-log q_y + A (1 - q_y)", "through f⁻¹(u) = u / (λ - A u)"),
        losses.SymmetricCrossEntropy,
        table_role="bounded",
    ),
    _spec(
        ("cep", "CEP", "cross-entropy with a prior"),
        ("-log q_y - Σ_i u_i log q_σ(i), σ sorting downwards", "2 H(u)"),
        losses.PriorCrossEntropy,
        table_role="bounded",
    ),
    _spec(
        ("backward", "Backward CE", "backward correction"),
        ("Σ_k T⁻¹[k, y] (-log q_k)", "clean entropy"),
        losses.BackwardCrossEntropy.symmetric,
        from_transition=losses.BackwardCrossEntropy,
    ),
    _spec(
        ("mse", "MSE", "mean squared error"),
        ("Σ_k (q_k - 1[k=y])²", "1 - Σ u²"),
        losses.MeanSquaredError,
        table_role="baseline",
    ),
    _spec(
        ("mae", "MAE", "mean absolute error"),
        ("1 - q_y", "η"),
        losses.MeanAbsoluteError,
        learning_rate=1e-3,
        table_role="baseline",
    ),
    _spec(
        ("nce-mae", "NCE-MAE", "normalized cross-entropy and MAE"),
        ("log q_y / Σ_k log q_k + 1 - q_y", "r + η"),
        losses.NormalizedCrossEntropyMAE,
        table_role="baseline",
    ),
    _spec(
        ("mixup", "MixUp", "cross-entropy on blended examples"),
        ("-Σ_k p_k log q_k, p a blend of two labels", None),
        losses.CrossEntropy,
        mixes=True,
        table_role="baseline",
    ),
    _spec(
        ("spherical", "Spherical", "spherical score"),
        ("-q_y / ‖q‖₂", "-‖u‖₂"),
        losses.Spherical,
        table_role="baseline",
    ),
    _spec(
        ("bootstrap", "Bootstrap", "soft bootstrapping"),
        ("-Σ_k (β 1[k=y] + (1-β) q_k) log q_k", "searched"),
        losses.Bootstrapping,
        table_role="baseline",
    ),
    _spec(
        ("truncated", "Truncated", "truncated GCE"),
        ("v_i (GCE - GCE at k)", None),
        losses.Truncated,
        table_role="baseline",
    ),
    _spec(
        ("curriculum", "Curriculum", "noise-pruned curriculum"),
        ("hinge of the easiest examples", None),
        losses.Curriculum,
        table_role="baseline",
    ),
    _spec(
        ("elr", "ELR", "early-learning regularization"),
        ("-log q_y + λ log(1 - <t, q>)", None),
        losses.EarlyLearning,
        learning_rate=1e-2,
        table_role="baseline",
    ),
)


def _nce() -> losses.Normalized:
    return losses.Normalized(losses.CrossEntropy())


def _nfl() -> losses.Normalized:
    return losses.Normalized(losses.Focal(gamma=0.5))  # the γ of Ma et al.


def _nce_with(passive: str, make: Callable[[], losses.LikelihoodLoss]) -> LossSpec:
    return _spec(
        (f"nce-{passive.lower()}", f"NCE-{passive}", f"normalized cross-entropy and {passive}"),
        (f"NCE + 4 {passive}", f"r + 4 times that of {passive}"),
        lambda: losses.ActivePassive(_nce(), make(), beta=4),
    )


# The weights and parameters of the sums are those that Ma et al. (2020) and Zhou et al. (2021) use
# for CIFAR-10.
_OF_OTHER_PAPERS = (
    _spec(
        ("focal", "Focal", "focal loss"),
        ("(1 - q_y)^γ (-log q_y)", "the same u_k φ'(q_k) for all k"),
        losses.Focal,
    ),
    _spec(
        ("rce", "RCE", "reverse cross-entropy"), ("A (1 - q_y)", "A η"), losses.ReverseCrossEntropy
    ),
    _spec(("nce", "NCE", "normalized cross-entropy"), ("log q_y / Σ_k log q_k", "r"), _nce),
    _spec(("nfl", "NFL", "normalized focal loss"), ("φ(q_y) / Σ_k φ(q_k), φ focal", "r"), _nfl),
    _spec(
        ("nce-rce", "NCE-RCE", "normalized cross-entropy and RCE"),
        ("log q_y / Σ_k log q_k + A (1 - q_y)", "r + A η"),
        lambda: losses.ActivePassive(_nce(), losses.ReverseCrossEntropy()),
    ),
    _spec(
        ("nfl-mae", "NFL-MAE", "normalized focal loss and MAE"),
        ("φ(q_y) / Σ_k φ(q_k) + 1 - q_y, φ focal", "r + η"),
        lambda: losses.ActivePassive(_nfl(), losses.MeanAbsoluteError()),
    ),
    _spec(
        ("nfl-rce", "NFL-RCE", "normalized focal loss and RCE"),
        ("φ(q_y) / Σ_k φ(q_k) + A (1 - q_y), φ focal", "r + A η"),
        lambda: losses.ActivePassive(_nfl(), losses.ReverseCrossEntropy()),
    ),
    _spec(
        ("agce", "AGCE", "asymmetric generalized cross-entropy"),
        ("((a+1)^q - (a+q_y)^q) / q", "η φ(0) at the vertex"),
        losses.AsymmetricGeneralizedCrossEntropy,
    ),
    _spec(
        ("aul", "AUL", "asymmetric unhinged loss"),
        ("((a-q_y)^p - (a-1)^p) / p", "η φ(0) at the vertex"),
        losses.AsymmetricUnhinged,
    ),
    _spec(
        ("ael", "AEL", "asymmetric exponential loss"),
        ("exp(-q_y / a)", "η + (1-η) exp(-1/a) at the vertex"),
        losses.AsymmetricExponential,
    ),
    _nce_with("AGCE", lambda: losses.AsymmetricGeneralizedCrossEntropy(a=6, q=1.5)),
    _nce_with("AUL", lambda: losses.AsymmetricUnhinged(a=6.3, p=1.5)),
    _nce_with("AEL", lambda: losses.AsymmetricExponential(a=5)),
    _spec(
        ("taylor", "Taylor-CE", "Taylor cross-entropy"),
        ("Σ_{i≤t} (1 - q_y)^i / i", "η Σ_{i≤t} 1/i at the vertex"),
        losses.TaylorCrossEntropy,
    ),
    _spec(
        ("js", "JS", "Jensen-Shannon divergence"),
        ("(S(π e_y + (1-π) q) - (1-π) S(q)) / Z", "the same u_k φ'(q_k) for all k"),
        losses.JensenShannon,
    ),
    _spec(
        ("ls", "LS", "label smoothing"),
        ("-(1-s) log q_y - (s/c) Σ_k log q_k", "H((1-s) u + s/c)"),
        losses.LabelSmoothing,
    ),
    _spec(
        ("nls", "NLS", "negative label smoothing"),
        ("-(1-s) log q_y - (s/c) Σ_k log q_k, s < 0", "H((1-s) u + s/c)"),
        lambda: losses.LabelSmoothing(smoothing=-0.4),
    ),
    _spec(
        ("ldr-kl", "LDR-KL", "label-distributionally robust loss"),
        ("λ log((1/c) Σ_k exp((z_k - z_y + m 1[k≠y]) / λ))", "the same u_k φ'(q_k) for all k"),
        losses.LabelDistributionallyRobust,
    ),
)

SPECS = {spec.name: spec for spec in (*_OF_THE_PAPER, *_OF_OTHER_PAPERS)}
"""Every loss by its name, and MixUp."""

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
        """Its name in the paper's tables, such as ``SCE+B``."""
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
    return NoiseBoundedLoss(loss, **facts(_NOISE_FACTS))
