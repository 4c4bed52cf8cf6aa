"""GCE's truncated loss: examples that the model finds unlikely are dropped, for a while."""

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
    """``v_i ((1 - q_y^q) / q - (1 - k^q) / q)`` with a choice ``v_i ∈ {0, 1}`` for each example.

    GCE as Zhang & Sabuncu (2018) train it: every so often (:meth:`prunes_at`) the choice is made
    anew, and an example is kept while the model gives its label a probability above ``k``
    (:meth:`choose`). All examples are kept at first. Dropped ones count as zeros in the mean.

    Args:
        num_samples: size of the training set.
        q: GCE's exponent, in ``(0, 1]``.
        k: the probability below which a label is distrusted, in ``(0, 1]``.
        start_prune: first epoch, counted from one, at which examples are dropped.
        prune_every: epochs between two choices.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: refuse NaN and infinite logits.

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
        """GCE less its value at the threshold."""
        at_threshold = -math.expm1(self.q * math.log(self.k)) / self.q
        return generalized_cross_entropy(surprisal, self.q) - at_threshold

    def with_memory(
        self,
        losses: Float[Tensor, " batch"],
        logits: Float[Tensor, "batch classes"],
        indices: Int[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
        """Zero for the dropped examples."""
        return losses * self.kept.to(logits.device)[indices]

    def prunes_at(self, epoch: int) -> bool:
        """Whether the choice is due after this epoch, counted from one."""
        return epoch >= self.start_prune and epoch % self.prune_every == 0

    @torch.no_grad()
    def choose(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Decide anew which of these examples are kept: those whose label is likelier than ``k``.

        Args:
            logits: of shape ``[N, C]``.
            labels: class indices of shape ``[N]``.
            indices: the examples' positions in the training set, of shape ``[N]``.
        """
        if labels.is_floating_point():
            raise InvalidValueError("choose() takes class indices as labels, got probabilities")
        check_shapes(logits, labels, self.num_classes)
        indices = self.check_indices(logits, indices)
        surprisal = F.cross_entropy(logits.float(), labels.long(), reduction="none")
        self.kept = self.kept.to(logits.device)
        self.kept.index_copy_(0, indices, surprisal < -math.log(self.k))

    def hyperparameters(self) -> list[str]:
        """The memory's size, the exponent and the threshold."""
        return [f"num_samples={self.num_samples}", f"q={self.q:g}", f"k={self.k:g}"]
