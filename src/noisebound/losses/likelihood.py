"""Losses that are one scalar function of ``log q_y``, and so cost what cross-entropy costs."""

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.losses.loss import Loss, Pick


class LikelihoodLoss(Loss):
    """``L(q, y) = φ(log q_y)``. A subclass writes φ as :meth:`of_log_likelihood`.

    ``log q_y`` comes from torch's fused cross-entropy, so neither the softmax nor a one-hot label
    is ever stored; φ touches one number an example.
    """

    def of_log_likelihood(self, log_q: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """φ, elementwise."""
        raise TypeError(f"{type(self).__name__} must define of_log_likelihood(log_q)")

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """``φ(log q_y)``."""
        return self.of_log_likelihood(at(log_q))

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """``φ(log q_y)`` of each example."""
        return self.of_log_likelihood(-F.cross_entropy(logits, labels, reduction="none"))
