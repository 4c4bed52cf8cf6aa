"""Truncated GCE, which drops examples whose label the model finds unlikely."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_count, check_within
from noisebound.errors import InvalidValueError
from noisebound.losses.generalized_cross_entropy import generalized_cross_entropy
from noisebound.losses.labels import check_shapes
from noisebound.losses.loss import Reduction
from noisebound.losses.remembering import RememberingLoss


class Truncated(RememberingLoss):
    """``v_i ((1 - q_y^q) / q - (1 - k^q) / q)``, with ``v_i`` 1 if example ``i`` is kept, else 0.

    Zhang & Sabuncu (2018) train GCE like this. At first all examples are kept. In the epochs that
    :meth:`prunes_at` names, :meth:`choose` decides again: an example is kept if the model gives its
    label a probability above ``k``. In the mean, dropped examples count as zeros.

    Args:
        num_samples: number of examples in the training set.
        q: GCE's exponent, in ``(0, 1]``.
        k: the probability of its label below which an example is dropped, in ``(0, 1]``.
        start_prune: the first epoch, counted from one, after which examples are dropped.
        prune_every: after ``start_prune``, examples are chosen in every epoch divisible by this.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> loss = nb.Truncated(num_samples=2)
        >>> logits, labels = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
        >>> loss.choose(logits, labels, torch.arange(2))
        >>> loss.kept
        tensor([ True, False])
    """

    kept: Tensor

    def __init__(
        self,
        num_samples: int,
        q: float = 0.7,
        k: float = 0.5,
        start_prune: int = 40,
        prune_every: int = 10,
        *,
        reduction: Reduction = "mean",
        check_finite: bool = False,
    ) -> None:
        super().__init__(num_samples, reduction=reduction, check_finite=check_finite)
        self.q = check_within("q", q, 0, 1, open_at_low=True)
        self.k = check_within("k", k, 0, 1, open_at_low=True)
        self.start_prune = check_count("start_prune", start_prune)
        self.prune_every = check_count("prune_every", prune_every)
        self.register_buffer("kept", torch.ones(self.num_samples, dtype=torch.bool))

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return GCE minus its value at the threshold."""
        at_threshold = -math.expm1(self.q * math.log(self.k)) / self.q
        return generalized_cross_entropy(surprisal, self.q) - at_threshold

    def with_memory(
        self,
        losses: Float[Tensor, " batch"],
        logits: Float[Tensor, "batch classes"],
        indices: Int[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
        """Return the losses, with zeros for the dropped examples."""
        return losses * self.kept.to(logits.device)[indices]

    def prunes_at(self, epoch: int) -> bool:
        """True if the examples are chosen again after this epoch, counted from one."""
        return epoch >= self.start_prune and epoch % self.prune_every == 0

    @torch.no_grad()
    def choose(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Keep those of these examples whose label has a probability above ``k``; drop the others.

        Args:
            logits: of shape ``[N, C]``.
            labels: class indices of shape ``[N]``.
            indices: the examples' positions in the training set, of shape ``[N]``.
        """
        if labels.is_floating_point():
            raise InvalidValueError("choose() takes class indices as `labels`, got probabilities")
        check_shapes(logits, labels, self.num_classes)
        indices = self.check_indices(logits, indices)
        surprisal = F.cross_entropy(logits.float(), labels.long(), reduction="none")
        self.kept = self.kept.to(logits.device)
        self.kept.index_copy_(0, indices, surprisal < -math.log(self.k))

    def hyperparameters(self) -> list[str]:
        """Return the size of the memory, the exponent and the threshold as the repr shows them."""
        return [f"num_samples={self.num_samples}", f"q={self.q:g}", f"k={self.k:g}"]
