"""The losses by name: what the rest of the library has to know of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from noisebound.losses import (
    ActivePassive,
    AsymmetricExponential,
    AsymmetricGeneralizedCrossEntropy,
    AsymmetricUnhinged,
    BackwardCrossEntropy,
    Bootstrapping,
    CrossEntropy,
    Curriculum,
    EarlyLearning,
    Focal,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    JensenShannon,
    LabelDistributionallyRobust,
    LabelSmoothing,
    Loss,
    MeanAbsoluteError,
    MeanSquaredError,
    Normalized,
    NormalizedCrossEntropyMAE,
    PriorCrossEntropy,
    ReverseCrossEntropy,
    Spherical,
    SymmetricCrossEntropy,
    TaylorCrossEntropy,
    Truncated,
)

Fact: TypeAlias = Literal["noise_rate", "num_classes", "num_samples"]
"""What a loss may have to know of the data before it can be made."""

NOISE_FACTS: tuple[Fact, ...] = ("noise_rate", "num_classes")


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


_OF_THE_PAPER = (
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
        NOISE_FACTS,
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
        NOISE_FACTS,
        table_role="bounded",
    ),
    LossSpec(
        "backward",
        "Backward CE",
        "backward correction",
        "Σ_k T⁻¹[k, y] (-log q_k)",
        "clean entropy",
        BackwardCrossEntropy.symmetric,
        NOISE_FACTS,
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
        "hinge of the easiest examples",
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


def _nce() -> Normalized:
    return Normalized(CrossEntropy())


def _nfl() -> Normalized:
    return Normalized(Focal(gamma=0.5))  # the γ of Ma et al.


# The weights and parameters of the sums are those that Ma et al. (2020) and Zhou et al. (2021) use
# for CIFAR-10.
_OF_OTHER_PAPERS = (
    LossSpec(
        "focal",
        "Focal",
        "focal loss",
        "(1 - q_y)^γ (-log q_y)",
        "the same u_k φ'(q_k) for all k",
        Focal,
    ),
    LossSpec("rce", "RCE", "reverse cross-entropy", "A (1 - q_y)", "A η", ReverseCrossEntropy),
    LossSpec("nce", "NCE", "normalized cross-entropy", "log q_y / Σ_k log q_k", "r", _nce),
    LossSpec("nfl", "NFL", "normalized focal loss", "φ(q_y) / Σ_k φ(q_k), φ focal", "r", _nfl),
    LossSpec(
        "nce-rce",
        "NCE-RCE",
        "normalized cross-entropy and RCE",
        "log q_y / Σ_k log q_k + A (1 - q_y)",
        "r + A η",
        lambda: ActivePassive(_nce(), ReverseCrossEntropy()),
    ),
    LossSpec(
        "nfl-mae",
        "NFL-MAE",
        "normalized focal loss and MAE",
        "φ(q_y) / Σ_k φ(q_k) + 1 - q_y, φ focal",
        "r + η",
        lambda: ActivePassive(_nfl(), MeanAbsoluteError()),
    ),
    LossSpec(
        "nfl-rce",
        "NFL-RCE",
        "normalized focal loss and RCE",
        "φ(q_y) / Σ_k φ(q_k) + A (1 - q_y), φ focal",
        "r + A η",
        lambda: ActivePassive(_nfl(), ReverseCrossEntropy()),
    ),
    LossSpec(
        "agce",
        "AGCE",
        "asymmetric generalized cross-entropy",
        "((a+1)^q - (a+q_y)^q) / q",
        "η φ(0) at the vertex",
        AsymmetricGeneralizedCrossEntropy,
    ),
    LossSpec(
        "aul",
        "AUL",
        "asymmetric unhinged loss",
        "((a-q_y)^p - (a-1)^p) / p",
        "η φ(0) at the vertex",
        AsymmetricUnhinged,
    ),
    LossSpec(
        "ael",
        "AEL",
        "asymmetric exponential loss",
        "exp(-q_y / a)",
        "η + (1-η) exp(-1/a) at the vertex",
        AsymmetricExponential,
    ),
    LossSpec(
        "nce-agce",
        "NCE-AGCE",
        "normalized cross-entropy and AGCE",
        "NCE + 4 AGCE",
        "r + 4 times that of AGCE",
        lambda: ActivePassive(_nce(), AsymmetricGeneralizedCrossEntropy(a=6, q=1.5), beta=4),
    ),
    LossSpec(
        "nce-aul",
        "NCE-AUL",
        "normalized cross-entropy and AUL",
        "NCE + 4 AUL",
        "r + 4 times that of AUL",
        lambda: ActivePassive(_nce(), AsymmetricUnhinged(a=6.3, p=1.5), beta=4),
    ),
    LossSpec(
        "nce-ael",
        "NCE-AEL",
        "normalized cross-entropy and AEL",
        "NCE + 4 AEL",
        "r + 4 times that of AEL",
        lambda: ActivePassive(_nce(), AsymmetricExponential(a=5), beta=4),
    ),
    LossSpec(
        "taylor",
        "Taylor-CE",
        "Taylor cross-entropy",
        "Σ_{i≤t} (1 - q_y)^i / i",
        "η Σ_{i≤t} 1/i at the vertex",
        TaylorCrossEntropy,
    ),
    LossSpec(
        "js",
        "JS",
        "Jensen-Shannon divergence",
        "(S(π e_y + (1-π) q) - (1-π) S(q)) / Z",
        "the same u_k φ'(q_k) for all k",
        JensenShannon,
    ),
    LossSpec(
        "ls",
        "LS",
        "label smoothing",
        "-(1-s) log q_y - (s/c) Σ_k log q_k",
        "H((1-s) u + s/c)",
        LabelSmoothing,
    ),
    LossSpec(
        "nls",
        "NLS",
        "negative label smoothing",
        "-(1-s) log q_y - (s/c) Σ_k log q_k, s < 0",
        "H((1-s) u + s/c)",
        lambda: LabelSmoothing(smoothing=-0.4),
    ),
    LossSpec(
        "ldr-kl",
        "LDR-KL",
        "label-distributionally robust loss",
        "λ log((1/c) Σ_k exp((z_k - z_y + m 1[k≠y]) / λ))",
        "the same u_k φ'(q_k) for all k",
        LabelDistributionallyRobust,
    ),
)

SPECS = {spec.name: spec for spec in (*_OF_THE_PAPER, *_OF_OTHER_PAPERS)}
"""Every loss by its name, and MixUp."""
