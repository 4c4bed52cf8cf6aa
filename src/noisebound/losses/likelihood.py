"""Losses that are a scalar function of ``log q_y``, and so are as fast as cross-entropy."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.errors import InvalidTypeError
from noisebound.losses.loss import Loss, Pick

_NO_LABEL = -(2**63)  # torch would silently ignore the label -100, its default


class LikelihoodLoss(Loss):
    """A loss ``L(q, y) = φ(s)`` of the surprisal ``s = -log q_y``. A subclass defines φ.

    Torch's fused cross-entropy computes the surprisal, so that neither the softmax nor a one-hot
    label is ever stored, and φ is applied to one number per example.
    """

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return φ of each element."""
        raise InvalidTypeError(f"{type(self).__name__} must define of_surprisal(surprisal)")

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``φ(-log q_y)``."""
        return self.of_surprisal(-at(log_q))

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """Return ``φ(-log q_y)`` of each example."""
        return self.of_surprisal(
            F.cross_entropy(logits, labels, reduction="none", ignore_index=_NO_LABEL)
        )

    def best_prediction(
        self, p: Float[Tensor, "batch classes"]
    ) -> Float[Tensor, "batch classes"] | None:
        """Return ``argmin_q p · L(q)``; None if it is known only through the noise model."""
        return None

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``p · L(q)`` of the best prediction ``q``, if it is known."""
        best = self.best_prediction(p)
        if best is None:
            return super().entropy(p)
        surprisal = -best.clamp(min=torch.finfo(p.dtype).tiny).log()
        return (p * self.of_surprisal(surprisal)).sum(1)
