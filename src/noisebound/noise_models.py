r"""Noise models ``f``, which map a clean class posterior to the noisy one.

A generalized forward-corrected loss is a proper *base loss* seen through a noise model,
$L_f(q, k) = L(f(q), k)$ (paper, Definition "Generalised Forward-Correction"), so
$f^{-1}(p) = \operatorname{argmin}_q p \cdot L_f(q)$. Here ``f`` is ``forward`` and ``f⁻¹`` is
``inverse``. Both are differentiable and take batches with the classes in the last dimension.
"""

from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.checks import (
    ArrayLike,
    as_float64,
    check_invertible,
    check_noise_rate,
    check_num_classes,
    check_number,
    check_transition,
)
from noisebound.errors import InvalidValueError

Distributions: TypeAlias = Float[Tensor, "*batch classes"]

_NEWTON_STEPS = 64  # far more than needed: the loop stops when the root no longer moves
_SMALLEST_CONTRAST = 1e-12  # a contrast of zero may be off by rounding


class NoiseModel(ABC):
    """An injective map of the probability simplex."""

    @abstractmethod
    def forward(self, q: ArrayLike) -> Distributions:
        """Return the noisy posterior ``f(q)`` of the clean posterior ``q``."""

    @abstractmethod
    def inverse(self, p: ArrayLike) -> Distributions:
        """Return the clean posterior ``f⁻¹(p)`` of the noisy posterior ``p``."""

    def __repr__(self) -> str:
        numbers = {k: v for k, v in vars(self).items() if not isinstance(v, Tensor)}
        return f"{type(self).__name__}({', '.join(f'{k}={v:g}' for k, v in numbers.items())})"


class Identity(NoiseModel):
    """No noise, ``f(q) = q``: the model of a proper loss (CE, MSE, Spherical)."""

    def forward(self, q: ArrayLike) -> Distributions:
        return _as_floating(q)

    def inverse(self, p: ArrayLike) -> Distributions:
        return _as_floating(p)


class Linear(NoiseModel):
    """Class-conditional noise ``f(q) = T q``, the model of FCE and of the backward correction.

    The paper's appendix prints ``T⁻¹`` for ``f``, which is the inverse.

    Args:
        transition: ``T[noisy, true]``, columns summing to one.

    Example:
        >>> Linear([[0.9, 0.2], [0.1, 0.8]]).forward([1.0, 0.0])
        tensor([0.9000, 0.1000], dtype=torch.float64)
    """

    def __init__(self, transition: ArrayLike) -> None:
        self.transition: Float[Tensor, "classes classes"] = check_transition(transition)

    def forward(self, q: ArrayLike) -> Distributions:
        q = _as_floating(q)
        return q @ self.transition.to(q).mT

    def inverse(self, p: ArrayLike) -> Distributions:
        """Return ``T⁻¹ p``, which has negative entries if no clean posterior gives ``p``."""
        p = _as_floating(p)
        check_invertible(self.transition)
        clean: Tensor = torch.linalg.solve(self.transition.to(p), p.unsqueeze(-1)).squeeze(-1)
        return clean


class Symmetric(NoiseModel):
    """Symmetric noise ``f(q) = T q``, ``T = (1-η-r) I + r 11ᵀ``, ``r = η/(c-1)``.

    It equals :class:`Linear` but never stores ``T``.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.

    Example:
        >>> Symmetric(noise_rate=0.4, num_classes=3).forward([1.0, 0.0, 0.0])
        tensor([0.6000, 0.2000, 0.2000], dtype=torch.float64)
    """

    def __init__(self, noise_rate: float, num_classes: int) -> None:
        self.num_classes = check_num_classes(num_classes)
        self.noise_rate = float(check_noise_rate(noise_rate, self.num_classes))
        self.off_diagonal = self.noise_rate / (self.num_classes - 1)
        self.contrast = 1 - self.noise_rate - self.off_diagonal

    @property
    def transition(self) -> Float[Tensor, "classes classes"]:
        """The matrix ``T[noisy, true]``."""
        return symmetric_transition(self.noise_rate, self.num_classes)

    def forward(self, q: ArrayLike) -> Distributions:
        q = _as_floating(q)
        return self.contrast * q + self.off_diagonal * q.sum(-1, keepdim=True)

    def inverse(self, p: ArrayLike) -> Distributions:
        """Return ``T⁻¹ p = (p - r Σp) / (1-η-r)``; at the rate ``(c-1)/c``, ``T`` is singular."""
        if abs(self.contrast) < _SMALLEST_CONTRAST:
            raise InvalidValueError(
                f"symmetric noise of `noise_rate` (c-1)/c = {self.noise_rate:g} cannot be undone, "
                "as its matrix is singular: use ForwardCrossEntropy, which needs no inverse"
            )
        p = _as_floating(p)
        return (p - self.off_diagonal * p.sum(-1, keepdim=True)) / self.contrast


def symmetric_transition(
    noise_rate: float | Tensor, num_classes: int
) -> Float[Tensor, "classes classes"]:
    """Return ``T`` of symmetric noise, whose columns are its noise vectors."""
    wrong = as_float64(noise_rate / (num_classes - 1))
    return wrong + (1 - noise_rate - wrong) * torch.eye(num_classes).to(wrong)


class Power(NoiseModel):
    """``f(q) ∝ q^(1-a)``, the model of GCE (paper, Lemma on GCE, SCE and FCE).

    Args:
        a: GCE's exponent, in ``(0, 1)``.

    Example:
        >>> Power(a=0.5).inverse([0.25, 0.75])
        tensor([0.1000, 0.9000], dtype=torch.float64)
    """

    def __init__(self, a: float) -> None:
        self.a = check_number("a", a, "(0, 1)")  # at 1 GCE is MAE, which has no noise model

    def forward(self, q: ArrayLike) -> Distributions:
        return _normalized_power(_as_floating(q), 1 - self.a)

    def inverse(self, p: ArrayLike) -> Distributions:
        return _normalized_power(_as_floating(p), 1 / (1 - self.a))


def _normalized_power(p: Tensor, exponent: float) -> Tensor:
    # Dividing by the largest entry first keeps high powers from underflowing to 0/0.
    powered = (p / p.amax(-1, keepdim=True)).pow(exponent)
    return powered / powered.sum(-1, keepdim=True)


class Saturating(NoiseModel):
    r"""``f(q) ∝ q / (1 + A q)``, the model of SCE (paper, Lemma on GCE, SCE and FCE).

    Its inverse is ``q_i = p_i / (λ - A p_i)`` with λ such that ``q`` sums to one. It is computed
    from ``δ = λ - A max(p)``, which lies in ``[max(p), 1]``: then ``λ - A p_i`` is a sum of two
    non-negative terms, ``δ + A (max(p) - p_i)``, and no digits cancel.

    Args:
        A: SCE's weight of the MAE term, at least zero.

    Example:
        >>> model = Saturating(A=8.0)
        >>> model.forward(model.inverse([0.6, 0.4, 0.0]))
        tensor([0.6000, 0.4000, 0.0000], dtype=torch.float64)
    """

    def __init__(self, A: float) -> None:
        self.A = check_number("A", A, "[0, ∞)")

    def forward(self, q: ArrayLike) -> Distributions:
        q = _as_floating(q)
        saturated = q / (1 + self.A * q)
        return saturated / saturated.sum(-1, keepdim=True)

    def inverse(self, p: ArrayLike) -> Distributions:
        p = _as_floating(p)
        largest = p.amax(-1, keepdim=True)
        slack = self.A * (largest - p)
        with torch.no_grad():
            delta = largest
            for _ in range(_NEWTON_STEPS):
                following = _newton_step(p, slack, delta)
                settled = (following - delta).abs() <= 4 * torch.finfo(p.dtype).eps * following
                delta = following
                if bool(settled.all()):
                    break
        # One more step, inside the graph, has the implicit derivative of the root.
        delta = _newton_step(p, slack, delta)
        return p / (delta + slack)


def _newton_step(p: Tensor, slack: Tensor, delta: Tensor) -> Tensor:
    """Return δ nearer to the root of ``1/Σ p/(δ + slack) = 1``, whose left side is concave."""
    terms = p / (delta + slack)
    total = terms.sum(-1, keepdim=True)
    slope = (terms / (delta + slack)).sum(-1, keepdim=True)
    return delta + total * (total - 1) / slope


def _as_floating(values: ArrayLike) -> Distributions:
    """Return a floating-point tensor unchanged, and anything else in float64."""
    if isinstance(values, Tensor) and values.is_floating_point():
        return values
    return as_float64(values)
