"""Bootstrapping: cross-entropy against a mixture of the label and the model's prediction."""

from typing import Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_within
from noisebound.errors import InvalidValueError
from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, LossOptions, Pick

_DEFAULT_BETA = {"soft": 0.95, "hard": 0.8}  # the values of Reed et al.


def soft_bootstrapping(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick, beta: float
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``-Σ_k (beta 1[k=y] + (1-beta) q_k) log q_k``, with ``0 log 0 = 0``."""
    finite = log_q.clamp(min=torch.finfo(log_q.dtype).min)  # a masked class has the logit -inf
    own = (finite.exp() * finite).sum(1, keepdim=True)
    return -beta * at(log_q) - (1 - beta) * own


def hard_bootstrapping(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick, beta: float
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``-beta log q_y - (1-beta) max_k log q_k``."""
    return -beta * at(log_q) - (1 - beta) * log_q.amax(1, keepdim=True)


class Bootstrapping(Loss):
    """Cross-entropy against ``beta`` times the label plus ``1-beta`` times the prediction.

    See Reed et al. (2015). The gradient also flows through the prediction in the target.

    Args:
        mode: ``"soft"`` mixes in the predicted probabilities, ``"hard"`` the predicted class.
        beta: the share of the label, in ``[0, 1]``; if not given, 0.95 for soft and 0.8 for hard.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Bootstrapping(mode="hard")(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6931)
    """

    def __init__(
        self,
        mode: Literal["soft", "hard"] = "soft",
        beta: float | None = None,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        if mode not in _DEFAULT_BETA:
            raise InvalidValueError(f"`mode` must be 'soft' or 'hard', got {mode!r}")
        self.mode = mode
        self.beta = check_within(
            "beta", _DEFAULT_BETA[mode] if beta is None else beta, 0, 1, open_at_low=False
        )

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return the soft or the hard mixture."""
        mixture = soft_bootstrapping if self.mode == "soft" else hard_bootstrapping
        return mixture(log_q, at, self.beta)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return the Bayes risk.

        In hard mode it is Shannon's entropy of ``beta p + (1-beta) 1[argmax p]``.
        """
        if self.mode == "soft":
            return super().entropy(p)
        likeliest = F.one_hot(p.argmax(1), p.shape[1])
        return shannon_entropy(torch.lerp(likeliest.to(p), p, self.beta))

    def hyperparameters(self) -> list[str]:
        """Return the mode and ``beta`` as the repr shows them."""
        return [f"mode={self.mode!r}", f"beta={self.beta:g}"]
