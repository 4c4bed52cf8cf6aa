r"""The prediction of least expected loss, for a loss that is a function φ of ``q_y`` alone.

The expected loss $\sum_k p_k \varphi(q_k)$ is separable. If φ is concave, it is least at a vertex
of the simplex. If φ is convex, it is least where $p_k \cdot (-\varphi'(q_k))$ is the same number
for all classes with $q_k > 0$, and no larger than that for the others. So one number has to be
found, whatever the number of classes.

An error of size ε in the prediction raises the expected loss by ε² only. So a table of the slope
$-\varphi'$ gives the floor to about eleven digits.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

Array: TypeAlias = NDArray[np.float64]
Slope: TypeAlias = Callable[[Array, Array], Array]
"""Returns ``-φ'(q)`` of ``q`` and ``1 - q``, both exact; it must not increase with ``q``."""

_LARGEST_LOGIT = 60.0  # beyond it a probability is taken as zero or one: they differ by 1e-26
_TABLE_SIZE = 2**14 + 1  # the logits are 0.007 apart, so that q is exact to 1e-5 of itself
_HALVINGS = 45  # narrow the logarithm of the common slope down to 1e-11 at most


def likeliest_vertex(p: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
    """Return the prediction that gives the likeliest class all of the probability."""
    return F.one_hot(p.argmax(1), p.shape[1]).to(p)


def balanced_prediction(
    p: Float[Tensor, "batch classes"], slope: Slope
) -> Float[Tensor, "batch classes"]:
    """Return ``argmin_q Σ_k p_k φ(q_k)`` over the simplex, for a convex and decreasing φ.

    The result has no gradient. It needs none for the entropy: at a minimum the derivative of the
    expected loss with respect to the prediction is zero.
    """
    chances = p.detach().cpu().double().numpy()
    chances_at_slope = _Table(slope)
    largest = chances.max(1, keepdims=True)
    # At the first end the likeliest class alone has probability one; at the other end it has 1/c,
    # and no class has more.
    even = np.full(1, 1 / p.shape[1])
    with np.errstate(divide="ignore"):
        log_chances = np.log(chances)
    low = np.log(largest) + chances_at_slope.least
    high = np.log(largest * slope(even, 1 - even))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_too_much = chances_at_slope(middle - log_chances).sum(1, keepdims=True) > 1
        low, high = np.where(is_too_much, middle, low), np.where(is_too_much, high, middle)
    q = chances_at_slope(low - log_chances)  # its sum is at least one
    return torch.from_numpy(q / q.sum(1, keepdims=True)).to(p)


class _Table:
    """The inverse of the slope, from a table with even steps in the logit of ``q``."""

    def __init__(self, slope: Slope) -> None:
        logits = np.linspace(_LARGEST_LOGIT, -_LARGEST_LOGIT, _TABLE_SIZE)
        slopes = slope(1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(logits)))
        self.log_slopes, self.logits = np.log(slopes), logits
        self.least = self.log_slopes[0]

    def __call__(self, log_slopes: Array) -> Array:
        """Return the probabilities at which the slope has these logarithms, or zero or one."""
        logits = np.interp(log_slopes, self.log_slopes, self.logits, left=np.inf, right=-np.inf)
        with np.errstate(over="ignore"):
            q: Array = 1 / (1 + np.exp(-logits))
        return q
