r"""The prediction of least expected loss, for a loss φ that is convex in ``q_y``.

The expected loss $\sum_k p_k \varphi(q_k)$ is least where $-p_k \varphi'(q_k)$ is the same number
for all classes with $q_k > 0$, and no larger than that for the others. So one number has to be
found, for any number of classes.

An error of size ε in the prediction raises the expected loss by ε² only. So a table of the slope
$-\varphi'$ gives the floor to about eleven digits.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

_LARGEST_LOGIT = 60.0  # beyond it a probability is taken as zero or one: they differ by 1e-26
_TABLE_SIZE = 2**14 + 1  # the logits are 0.007 apart, so that q is exact to 1e-5 of itself
_HALVINGS = 45  # narrow the logarithm of the common slope down to 1e-11 at most


def balanced_prediction(
    p: Float[Tensor, "batch classes"], of_surprisal: Callable[[Tensor], Tensor]
) -> Float[Tensor, "batch classes"]:
    """Return ``argmin_q Σ_k p_k φ(q_k)``, for a convex and decreasing φ given by ``-log q``.

    The result has no gradient. It needs none for the entropy: at a minimum the derivative of the
    expected loss with respect to the prediction is zero.
    """
    logits = torch.linspace(_LARGEST_LOGIT, -_LARGEST_LOGIT, _TABLE_SIZE, dtype=torch.float64)
    table = np.maximum.accumulate(_log_slopes(of_surprisal, -F.logsigmoid(logits)))
    even = _log_slopes(of_surprisal, torch.tensor([float(p.shape[1])]).double().log())

    def at_slope(log_slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.interp(log_slopes, table, logits.numpy(), left=np.inf, right=-np.inf)
        with np.errstate(over="ignore"):
            q: NDArray[np.float64] = 1 / (1 + np.exp(-found))
        return q

    with np.errstate(divide="ignore"):
        log_p = np.log(p.detach().cpu().double().numpy())
    # At the first end the likeliest class alone has probability one; at the other end it has 1/c,
    # and no class has more.
    likeliest = log_p.max(1, keepdims=True)
    low, high = likeliest + table[0], likeliest + even
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_too_much = at_slope(middle - log_p).sum(1, keepdims=True) > 1
        low, high = np.where(is_too_much, middle, low), np.where(is_too_much, high, middle)
    q = at_slope(low - log_p)  # its sum is at least one
    return torch.from_numpy(q / q.sum(1, keepdims=True)).to(p)


def _log_slopes(of_surprisal: Callable[[Tensor], Tensor], surprisal: Tensor) -> NDArray[np.float64]:
    """Return ``log(-φ'(q))``: by the chain rule the derivative by ``-log q``, divided by ``q``."""
    with torch.inference_mode(False), torch.enable_grad():
        at = surprisal.clone().requires_grad_()
        (derivative,) = torch.autograd.grad(of_surprisal(at).sum(), at)
    log_slopes: NDArray[np.float64] = (derivative.log() + surprisal).numpy()
    return log_slopes
