"""Losses that are a scalar function of ``log q_y``, and so are as fast as cross-entropy."""

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
